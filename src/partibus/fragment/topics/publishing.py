"""Publishing: a topic numbers its messages and gives them to its subscriptions.

Owns how a message gets from the topic to the subscriptions that select it: duplicates and the size
are checked at the topic (ENT-5, DUP-7), the selector says who gets what, and all of it becomes
durable in one entry of the store. A body is written once, however many subscriptions share it; what
a rule's action has changed is written separately. A message that no subscription selects is
dropped, or refused where the topic is configured so (ENT-4). Scheduled messages wait at the topic;
`due` publishes them when their time comes.
"""

from typing import Final

from partibus.domain.errors import BusError, NoMatchingSubscription, QuotaExceeded
from partibus.fragment.changes import Change, DuplicateCheck
from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.effects import Confirmed, Effects, Refused
from partibus.fragment.message import NEVER_MS, Held, NewMessage, Overlay
from partibus.fragment.outbox.fencing import is_own, mark_taken, without_taken
from partibus.fragment.outbox.marks import Mark
from partibus.fragment.queue.arrivals import scheduled as scheduled_record
from partibus.fragment.queue.arrivals import take_numbers_back, ttl_word
from partibus.fragment.queue.duplicates import drop_duplicates, identified, let_go, remember
from partibus.fragment.records import (
    DEAD_LETTERED,
    DUE_PUBLISHED,
    ENQUEUED,
    ENQUEUED_DUE,
    ENQUEUED_META,
    PUBLISHED,
    pack_overlay,
    pack_sequences,
)
from partibus.fragment.sessions.records import copies_in_sessions
from partibus.fragment.state import State
from partibus.fragment.topics.changes import Copies, Copy, Publication
from partibus.fragment.topics.records import Holders, numbered, pack_due, pack_published
from partibus.fragment.topics.selection import Selection
from partibus.fragment.topics.state import Topic
from partibus.store.record import Record

NO_SESSION: Final = Overlay(
    reason="Session ID is null",
    description="Session enabled entity doesn't allow a message whose session identifier is null.",
)
"""Why a message without a session is among a session subscription's dead letters (DLQ-6)."""


class Draft:
    """One publication being built; nothing is changed until `finish`."""

    __slots__ = (
        "_copies",
        "_extra_records",
        "_is_due",
        "_next_extra",
        "_now_ms",
        "_state",
        "_topic",
        "byte_count",
        "failure_count",
        "first_sequence",
        "has_own_records",
        "is_wanted",
        "published",
        "records",
    )

    def __init__(self, state: State, message_count: int, now_ms: int, is_due: bool = False) -> None:
        assert state.topic is not None
        self._state = state
        self._topic = state.topic
        self._now_ms = now_ms
        self._is_due = is_due
        """The messages were scheduled, and their time has come."""
        self._copies: dict[int, Copies] = {}
        self._extra_records: list[Record] = []
        self.first_sequence = state.next_sequence
        self._next_extra = self.first_sequence + message_count
        self.records: list[Record] = []
        self.published: list[Record] = []
        self.byte_count = 0
        """The fields that all copies share."""
        self.failure_count = 0
        self.has_own_records = False
        """Whether a copy has a number that the topic's own records do not contain."""
        self.is_wanted = True
        """Whether every message found a subscription."""

    def publish(self, sequence: int, body: bytes, session_id: str | None, ttl_ms: int) -> None:
        """Copy a new message to every subscription that selects it."""
        selection = self._select(body, sequence)
        record = Record(self._state.fragment_id, PUBLISHED, b"", body)
        holders = self._share(selection, record, len(body), sequence, session_id, ttl_ms)
        if holders:
            record.meta = pack_published(sequence, self._now_ms, holders)
            self.records.append(record)
            self.published.append(record)
        self._write_apart(selection, sequence, body, ttl_ms)
        if not holders and not selection.rewritten:
            self.is_wanted = False

    def publish_due(self, sequence: int, held: Held, body: bytes, ttl_ms: int) -> None:
        """Copy a due message to every subscription that selects it; its body stays in place."""
        selection = self._select(body, sequence)
        session_id = self._topic.selector.session_of(body) if selection.shared else None
        holders = self._share(selection, held, held.length, sequence, session_id, ttl_ms)
        meta = pack_due(held.sequence, sequence, self._now_ms, holders)
        self.records.append(Record(self._state.fragment_id, DUE_PUBLISHED, meta))
        self._write_apart(selection, sequence, body, ttl_ms)

    def _select(self, body: bytes, sequence: int) -> Selection:
        topic = self._topic
        selection = topic.selector.select(body, topic.index, sequence, self._now_ms)
        self.failure_count += selection.failure_count
        return selection

    def _share(
        self,
        selection: Selection,
        source: Record | Held,
        length: int,
        sequence: int,
        session_id: str | None,
        ttl_ms: int,
    ) -> Holders:
        """Copies that share one body, by the time at which they expire (TTL-3)."""
        ttl_ms = capped(ttl_ms, self._state.spec.default_ttl_ms)
        holders: Holders = {}
        for key in selection.shared:
            subscription = self._topic.subscriptions.get(key)
            if subscription is None:
                continue
            overlay = None
            if session_id is None and subscription.spec.requires_session:
                overlay = NO_SESSION
            expires_ms = self._expiry_ms(subscription, ttl_ms)
            copy = Copy(source, length, sequence, expires_ms, session_id, overlay)
            self._add(key, copy)
            _hold(holders, subscription, expires_ms)
        for failure in selection.failed:
            subscription = self._topic.subscriptions.get(failure.key)
            if subscription is None or failure.key in selection.shared:
                continue
            expires_ms = self._expiry_ms(subscription, ttl_ms)
            copy = Copy(source, length, sequence, expires_ms, None, failure.overlay)
            self._add(failure.key, copy)
            _hold(holders, subscription, expires_ms)
        return holders

    def _write_apart(self, selection: Selection, sequence: int, body: bytes, ttl_ms: int) -> None:
        """Copies with bodies of their own; the second and later ones of a subscription take further
        numbers (SEQ-11)."""
        if not selection.rewritten and not selection.failed:
            return
        given = set(selection.shared)
        for failure in selection.failed:
            if failure.key in given:
                # A copy in the main subqueue takes its place.
                message = NewMessage(body, ttl_ms)
                self._add_apart(failure.key, sequence, True, message, failure.overlay)
        given.update([failure.key for failure in selection.failed])
        for key, message in selection.rewritten:
            self._add_apart(key, sequence, key in given, message, None)
            given.add(key)

    def _add_apart(
        self, key: int, number: int, is_extra: bool, message: NewMessage, overlay: Overlay | None
    ) -> None:
        subscription = self._topic.subscriptions.get(key)
        if subscription is None:
            return
        if is_extra:
            number = self._next_extra
            self._next_extra += 1
        if overlay is None and message.session_id is None and subscription.spec.requires_session:
            overlay = NO_SESSION
        ttl_ms = capped(message.ttl_ms, self._state.spec.default_ttl_ms)
        expires_ms = self._expiry_ms(subscription, ttl_ms)
        meta = ENQUEUED_META.pack(number, self._now_ms, expires_ms)
        kind = ENQUEUED_DUE if self._is_due else ENQUEUED
        record = Record(subscription.fragment_id, kind, meta, message.body)
        (self._extra_records if is_extra else self.records).append(record)
        self.published.append(record)
        self.has_own_records = True
        length = len(message.body)
        self._add(key, Copy(record, length, number, expires_ms, message.session_id, overlay))

    def _expiry_ms(self, subscription: State, ttl_ms: int) -> int:
        ttl_ms = capped(ttl_ms, subscription.spec.default_ttl_ms)
        return NEVER_MS if ttl_ms < 0 else self._now_ms + ttl_ms

    def _add(self, key: int, copy: Copy) -> None:
        copies = self._copies.get(key)
        if copies is None:
            copies = self._copies[key] = Copies(self._now_ms, self._is_due)
        copies.copies.append(copy)
        copies.byte_count += copy.length
        self.byte_count += copy.length

    def finish(self, out: Effects) -> Publication:
        """Take the numbers and the space; the caller adds who is to be answered."""
        state = self._state
        self.records += self._extra_records
        if self.has_own_records:
            self.records.append(numbered(state.fragment_id, self._next_extra))
        state.next_sequence = self._next_extra
        change = Publication(self.records, self.first_sequence, self._next_extra, self._now_ms)
        change.published = self.published
        out.changes.append(change)
        for key, copies in self._copies.items():
            subscription = self._topic.subscriptions[key]
            _complete(subscription, copies)
            subscription.size_bytes += copies.byte_count
            out.elsewhere.append((subscription.fragment_id, copies))
        return change


def capped(ttl_ms: int, most_ms: int) -> int:
    """A time to live, limited to a maximum that also applies when there is none (TTL-2)."""
    if most_ms and (ttl_ms < 0 or ttl_ms > most_ms):
        return most_ms
    return ttl_ms


def _hold(holders: Holders, subscription: State, expires_ms: int) -> None:
    if expires_ms in holders:
        holders[expires_ms].append(subscription.fragment_id)
    else:
        holders[expires_ms] = [subscription.fragment_id]


def _complete(subscription: State, copies: Copies) -> None:
    """Order the copies by number, and record what the other records do not contain."""
    copies.copies.sort(key=lambda copy: copy.sequence)
    members: list[tuple[int, str]] = []
    for copy in copies.copies:
        if copy.overlay is not None:
            meta = b"\x00" + pack_overlay(copy.overlay) + pack_sequences([copy.sequence])
            copies.records.append(Record(subscription.fragment_id, DEAD_LETTERED, meta))
        elif subscription.sessions is not None:
            members.append((copy.sequence, copy.session_id or ""))
    if members:
        copies.records.append(copies_in_sessions(subscription.fragment_id, members))


# --- a send ---------------------------------------------------------------------------------------


def publish(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Number the messages, select their subscriptions, and prepare the change."""
    assert isinstance(command, Enqueue)
    topic = topic_of(state)
    check: DuplicateCheck | None = None
    origin = command.origin
    if origin is not None:
        fresh = without_taken(state, command, origin, out)
        if fresh is None:
            return
        command = fresh
    if state.spec.duplicate_window_ms:
        command, check = drop_duplicates(state, command, now_ms)
    draft = Draft(state, len(command.messages), now_ms)
    scheduled: list[tuple[int, NewMessage, Record]] = []
    scheduled_bytes = 0
    sequence = draft.first_sequence
    for message in command.messages:
        if message.scheduled_ms > now_ms:
            record = scheduled_record(state.fragment_id, sequence, message, now_ms)
            draft.records.append(record)
            scheduled.append((sequence, message, record))
            scheduled_bytes += len(message.body)
        else:
            draft.publish(sequence, message.body, message.session_id, message.ttl_ms)
        sequence += 1
    topic.filter_errors += draft.failure_count
    room = None if is_own(state, origin) else draft.byte_count + scheduled_bytes
    error = _refusal(state, topic, draft, room, now_ms)
    if error is not None:
        if check is not None:
            let_go(state, check)
        out.outward.append(Refused(command.port, command.requests, error))
        return
    if not draft.records and check is None and origin is None:
        # No subscription selects any of them: there is nothing to wait for (ENT-4).
        out.outward.append(Confirmed(command.port, command.requests, draft.first_sequence))
        return
    if check is not None and check.identities:
        draft.records.append(identified(state, check))
    mark: Mark | None = None
    if origin is not None:
        mark, taken = mark_taken(state, origin)
        if taken is not None:
            draft.records.append(taken)
    change = draft.finish(out)
    change.mark = mark
    change.command = command
    change.check = check
    change.scheduled = scheduled
    state.size_bytes += scheduled_bytes


def _refusal(
    state: State, topic: Topic, draft: Draft, byte_count: int | None, now_ms: int
) -> BusError | None:
    if state.spec.requires_match and not draft.is_wanted:
        return NoMatchingSubscription(
            f"No subscription of '{state.spec.path}' has a rule that selects the message, and the "
            "topic refuses such messages. Add a rule, or correct the message's properties."
        )
    if byte_count is not None and not topic.has_room(state, byte_count, now_ms):
        return QuotaExceeded(
            f"The maximum entity size has been reached for '{state.spec.path}': "
            f"{topic.weigh(state)} of {state.spec.size_bytes_max} bytes are used by the messages "
            "of its subscriptions. Receive or purge messages, or raise the topic's maximum size."
        )
    return None


def topic_of(state: State) -> Topic:
    """The topic of this fragment."""
    assert state.topic is not None
    return state.topic


# --- when it is durable ---------------------------------------------------------------------------


def published(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The topic's part is durable; each subscription has its own."""
    assert isinstance(change, Publication)
    state.next_sequence_durable = change.next_sequence
    state.tally.incoming += len(change.scheduled) + len(change.published)
    for sequence, message, record in change.scheduled:
        length, ttl = len(record.body), ttl_word(message.ttl_ms)
        due_ms = message.scheduled_ms
        state.scheduled.push(sequence, record.position, length, change.enqueued_ms, due_ms, ttl)
    for record in change.published:
        # The subscriptions now hold their own references to it.
        out.released.append(Held(0, record.position, len(record.body), 0, 0, 0, None))
    for held in change.due:
        del state.departing[held.sequence]
        state.size_bytes -= held.length
    out.released.extend(change.due)
    command = change.command
    if command is not None:
        if command.origin is not None:
            assert change.mark is not None
            state.marks.set(command.origin.fragment_id, change.mark)
        dropped: list[int] = []
        if change.check is not None:
            remember(state, change.check, now_ms, out)
            dropped = change.check.dropped
        confirmed = Confirmed(command.port, command.requests, change.first_sequence, dropped)
        out.outward.append(confirmed)


def abort_publication(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the numbers are free again, since everything that came later failed too."""
    assert isinstance(change, Publication)
    take_numbers_back(state, change.first_sequence)
    state.size_bytes -= sum([len(record.body) for _, _, record in change.scheduled])
    if change.check is not None:
        let_go(state, change.check)
    if change.command is not None:
        if change.command.origin is not None:
            state.marks.take_back(change.command.origin.fragment_id)
        out.outward.append(Refused(change.command.port, change.command.requests, error))
