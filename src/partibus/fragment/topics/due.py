"""Scheduled messages of a topic, when their time has come.

Owns the move from the table of scheduled messages to the subscriptions. Filters run only now
(SCH-10), so the bodies are read back, a bounded number at a time; until the publication is durable
the messages stay scheduled, and after a crash they are due again: each is published exactly once.
What cannot be read is kept, never skipped silently.
"""

from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command, Tick
from partibus.fragment.effects import Due, Effects
from partibus.fragment.message import Held
from partibus.fragment.queue.scheduling import reinstate, take_due
from partibus.fragment.records import NO_TTL
from partibus.fragment.stages.behaviour import drop_abandoned
from partibus.fragment.state import State
from partibus.fragment.topics.changes import Publication
from partibus.fragment.topics.commands import DueUnread, PublishDue
from partibus.fragment.topics.publishing import Draft, abort_publication, published, topic_of

READ_MESSAGES_MAX: Final = 256
READ_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bodies that are read and published together."""


def topic_tick(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Time has passed: scheduled messages may be due."""
    assert isinstance(command, Tick)
    allowance = command.allowance
    topic_of(state).due.extend(take_due(state, allowance, now_ms))
    _read_next(state, out)
    drop_abandoned(state, allowance, now_ms, out)
    state.history.sweep(now_ms, state.spec.duplicate_window_ms)
    state.is_behind = not allowance.left


def _read_next(state: State, out: Effects) -> None:
    """Read the bodies of due messages, unless others are being read."""
    topic = topic_of(state)
    if topic.reading or not topic.due:
        return
    chunk: list[Held] = []
    byte_count = 0
    while topic.due and len(chunk) < READ_MESSAGES_MAX and byte_count < READ_BYTES_MAX:
        chunk.append(topic.due.popleft())
        byte_count += chunk[-1].length
    topic.reading = 1
    out.outward.append(Due(state.fragment_id, chunk))


def publish_due(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The bodies were read: select the subscriptions, as if the messages were sent now (SCH-4)."""
    assert isinstance(command, PublishDue)
    draft = Draft(state, len(command.messages), now_ms, is_due=True)
    sequence = draft.first_sequence
    for held, body in zip(command.messages, command.bodies, strict=True):
        ttl = held.delivery_count
        draft.publish_due(sequence, held, body, -1 if ttl == NO_TTL else ttl)
        sequence += 1
    topic_of(state).filter_errors += draft.failure_count
    draft.finish(out).due = command.messages


def due_unread(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """A store that cannot read is asked again; a damaged message is separated from the others."""
    assert isinstance(command, DueUnread)
    topic = topic_of(state)
    topic.reading -= 1
    if not command.damaged:
        _reinstate(state, command.messages)
    elif len(command.messages) > 1:
        topic.reading += len(command.messages)
        for held in command.messages:
            out.outward.append(Due(state.fragment_id, [held]))
    else:
        # It stays among the leaving messages: visible to peek, kept across a restart.
        _read_next(state, out)


def publication_durable(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """A publication is durable; if it was of scheduled messages, the next may follow."""
    assert isinstance(change, Publication)
    published(state, change, now_ms, out)
    if change.due:
        topic_of(state).reading -= 1
        _read_next(state, out)


def publication_failed(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: scheduled messages stay scheduled, and are due when it answers."""
    assert isinstance(change, Publication)
    abort_publication(state, change, error, out)
    if change.due:
        topic_of(state).reading -= 1
        _reinstate(state, change.due)


def _reinstate(state: State, messages: list[Held]) -> None:
    """Schedule them again, with those that wait behind them; the next tick finds them due."""
    topic = topic_of(state)
    reinstate(state, [*messages, *topic.due])
    topic.due.clear()
