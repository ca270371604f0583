"""From what a store recovered to the states of its fragments.

Owns which state each record is applied to, the removal of dropped fragments, and the marks of the
store. Records that contradict each other are an error with the fragment's number, never a crash.
Called by the broker when it opens, and by the offline check.
"""

import struct
from collections.abc import Callable
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.records import DROPPED
from partibus.fragment.replay import replay
from partibus.fragment.snapshot import load
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.fragment.topics.records import TOPIC_KINDS, replay_topic
from partibus.fragment.upkeep.store_marks import STORE_FRAGMENT, StoreMarks
from partibus.store.interface import Pages, Recovered, RecoveredRecord

STEP_RECORDS: Final = 4096
"""Records between two calls of `progress`: a few milliseconds."""

_CONTRADICTIONS: Final = (AssertionError, LookupError, OverflowError, ValueError, struct.error)
"""The exceptions that invalid numbers, positions and texts lead to."""


def no_progress() -> None:
    """No progress is reported."""


class Rebuilt:
    """The fragments of a store as of its last record."""

    __slots__ = ("last_page", "marks", "states", "was_stopped")

    def __init__(self) -> None:
        self.last_page = 0
        """The highest number of a page in the checkpoint."""
        self.states: dict[int, State] = {}
        self.marks = StoreMarks()
        self.was_stopped = True
        """The log ends with the snapshot of a clean stop: no fragment recorded anything after
        it."""


def rebuild(recovered: Recovered, progress: Callable[[], None] = no_progress) -> Rebuilt:
    """Apply every record; StoreCorrupt when they do not fit together."""
    rebuilt = Rebuilt()
    states, marks = rebuilt.states, rebuilt.marks
    rebuilt.last_page = recovered.pages.last
    for fragment_id, snapshot in recovered.states.items():
        if fragment_id == STORE_FRAGMENT:
            marks.read(snapshot)
        else:
            states[fragment_id] = _loaded(fragment_id, snapshot, recovered.pages)
        progress()
    dropped: set[int] = set()
    for number, record in enumerate(recovered.records):
        if number % STEP_RECORDS == 0:
            progress()
        fragment_id = record.fragment
        if fragment_id == STORE_FRAGMENT:
            marks.read(record.meta)
            continue
        rebuilt.was_stopped = False
        if record.kind == DROPPED:
            marks.saw(fragment_id)
            dropped.add(fragment_id)
            states.pop(fragment_id, None)
        if fragment_id not in dropped:
            _apply(states, record)
    for fragment_id in dropped:
        states.pop(fragment_id, None)
    if not rebuilt.was_stopped:
        for state in states.values():
            state.kept_locks = b""  # locks of an earlier stop, ended by a later start
    marks.saw(max(states, default=0))
    return rebuilt


def _loaded(fragment_id: int, snapshot: bytes, pages: Pages) -> State:
    """The state of a fragment from its snapshot."""
    try:
        return load(fragment_id, NO_SPEC, snapshot, pages)
    except _CONTRADICTIONS as error:
        raise StoreCorrupt(
            f"fragment {fragment_id}: its snapshot in the checkpoint contradicts itself. Restore "
            "the store from a backup; nothing was changed."
        ) from error


def _apply(states: dict[int, State], record: RecoveredRecord) -> None:
    """Apply one record to the fragment it concerns."""
    state = states.get(record.fragment)
    if state is None:
        state = states[record.fragment] = State(record.fragment, NO_SPEC)
    kind, position, length = record.kind, record.position, record.body_length
    try:
        if kind in TOPIC_KINDS:
            replay_topic(states, state, kind, record.meta, position, length)
        else:
            replay(state, kind, record.meta, position, length)
    except StoreCorrupt as error:
        raise StoreCorrupt(f"fragment {record.fragment}: {error.text}") from error
    except _CONTRADICTIONS as error:
        raise StoreCorrupt(
            f"fragment {record.fragment}: a record of kind {kind} contradicts those before it"
        ) from error
