"""The fragment machine: commands and the time in, effects out.

Owns the list of features, and the tables assembled from them that say which module answers which
command, what a durable change does and how a failed one is undone. It is pure and synchronous: it
reads no clock, calls nobody and does no input or output, so a test, a simulator and a server drive
it alike. A command that changes durable state only prepares a `Change`; `commit` carries it out
once the store has it, `abort` undoes it. Only the broker calls it.
"""

from itertools import count
from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.claims.feature import CLAIMS
from partibus.fragment.commands import Command, Resume, Suspend, Tick
from partibus.fragment.cursors.feature import CURSORS
from partibus.fragment.effects import Effects
from partibus.fragment.feature import Abort, Commit, Feature, Handler
from partibus.fragment.outbox.departures import serve_collector
from partibus.fragment.outbox.feature import OUTBOX
from partibus.fragment.queue import dispatch
from partibus.fragment.queue.feature import QUEUE
from partibus.fragment.sessions.feature import SESSIONS
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages.departures import depart_published
from partibus.fragment.stages.feature import STAGES
from partibus.fragment.state import State
from partibus.fragment.topics.feature import TOPICS
from partibus.fragment.transactions.feature import TRANSACTIONS

FEATURES: Final[tuple[Feature, ...]] = (
    # Locks of sessions lapse first: what they held may expire in the same tick.
    SESSIONS,
    QUEUE,
    TOPICS,
    OUTBOX,
    TRANSACTIONS,
    CLAIMS,
    CURSORS,
    STAGES,
)

_births: Final = count(1)


class Machine:
    """One fragment: its state, and everything that may happen to it."""

    __slots__ = ("_handlers", "changes", "is_gone", "state", "used_ms")

    def __init__(self, state: State) -> None:
        self.state = state
        self._handlers = HANDLERS if state.topic is None else TOPIC_HANDLERS
        self.is_gone = False
        """The entity was deleted: every command is answered with an error."""
        self.changes = next(_births) << 32
        """Raised by everything that happens, and never equal to that of another machine of the
        process: observers see whether they must look again."""
        self.used_ms = 0
        """When it last had a command that counts as use of the entity (IDL-2)."""

    def change_spec(self, spec: FragmentSpec, now_ms: int) -> None:
        """The entity has new properties from now on; what was done under the old ones stays."""
        state = self.state
        before_ms = state.spec.lock_duration_ms
        if spec.lock_duration_ms < before_ms:
            for subqueue in state.subqueues:
                subqueue.shorten_locks(now_ms, now_ms + before_ms)
        state.spec = spec

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set by `delta_ms`: intervals that are kept as moments move with it.

        Times of day stay as they are: due times of scheduled messages, expiry, retention. They need
        a `Tick` now (docs/adr/0014-clock.md).
        """
        self.used_ms += delta_ms
        for feature in FEATURES:
            if feature.shift is not None:
                feature.shift(self.state, delta_ms)

    def apply(self, command: Command, now_ms: int, out: Effects) -> None:
        """Carry out a command, or prepare the change it asks for."""
        self.changes += 1
        self._handlers[type(command)](self.state, command, now_ms, out)

    def commit(self, change: Change, now_ms: int, out: Effects) -> None:
        """The records of a prepared change are durable: carry it out."""
        self.changes += 1
        COMMITS[type(change)](self.state, change, now_ms, out)

    def abort(self, change: Change, error: BusError, out: Effects) -> None:
        """The store failed: leave everything as it was before the change was prepared."""
        self.changes += 1
        ABORTS[type(change)](self.state, change, error, out)

    def deadline_ms(self) -> int | None:
        """When the machine next needs a `Tick`; it may come early, never late."""
        state = self.state
        if state.is_behind:
            return 0
        times: list[int | None] = []
        for feature in FEATURES:
            if feature.deadlines is not None:
                times += feature.deadlines(state)
        return min([time_ms for time_ms in times if time_ms is not None], default=None)


def tick(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Let every feature do what is due: a slice of it."""
    assert isinstance(command, Tick)
    allowance = command.allowance
    for feature in FEATURES:
        if feature.on_tick is not None:
            feature.on_tick(state, allowance, now_ms, out)
    was_behind, state.is_behind = state.is_behind, not allowance.left
    if was_behind and not state.is_behind:
        dispatch.caught_up(state, now_ms, out)


def suspend(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The store is down: deliver nothing."""
    state.suspended = True
    if state.is_behind:
        # Nothing is ticked now; a tick follows when the store is back.
        state.is_behind = False
        dispatch.answer_drains(state, out)


def resume(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The store answers again."""
    state.suspended = False
    for subqueue in state.subqueues:
        dispatch.dispatch(state, subqueue, now_ms, out)
    serve_collector(state, out)
    depart_published(state, out)


HANDLERS: Final[dict[type[Command], Handler]] = {Tick: tick, Suspend: suspend, Resume: resume}
TOPIC_HANDLERS: Final[dict[type[Command], Handler]] = {}
"""A topic holds nothing for receivers: its messages go on to its subscriptions (ENT-4)."""
COMMITS: Final[dict[type[Change], Commit]] = {}
ABORTS: Final[dict[type[Change], Abort]] = {}


def _assemble() -> None:
    for feature in FEATURES:
        HANDLERS.update(feature.handlers)
        for change, (commit, abort) in feature.changes.items():
            COMMITS[change] = commit
            ABORTS[change] = abort
    TOPIC_HANDLERS.update(HANDLERS)
    for feature in FEATURES:
        TOPIC_HANDLERS.update(feature.topic_handlers)


_assemble()
