"""The sessions of a fragment: who is in which, who holds which, and which may be given next.

Owns an index over the messages of a session entity, which themselves stay in the tables of their
subqueue: for each session the sequence numbers that wait, oldest first, and those that are deferred
or scheduled. A session exists as long as it has messages, state or a holder (SES-2). Free sessions
with waiting messages are in a heap by their head, so that the one whose head has waited longest is
given next (SES-25). Plain data with no idea of durability or of time.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from partibus.fragment.commands import Consumer
from partibus.fragment.message import Held
from partibus.fragment.sessions.commands import SessionConsumer
from partibus.fragment.word_map import WordMap

NOBODY: Final = 0
"""In place of a session's number: the message has no session."""
NO_STATE: Final = -1
"""In `state_length`: the session has no state (SES-16)."""
_NUMBER_BITS: Final = 32
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_STALE_OFFERS_MIN: Final = 1024
"""Outdated offers stay in the heap until there are more than this."""
_HEAD_MAX: Final = 64
"""Free slots at the front before the rest is moved up."""


class Session:
    """One session and the numbers of its messages."""

    __slots__ = (
        "_aside",
        "_head",
        "_ready",
        "lock",
        "message_count",
        "number",
        "session_id",
        "standing",
        "state_length",
        "state_position",
        "state_updated_ms",
    )

    def __init__(self, number: int, session_id: str) -> None:
        self.number = number
        self.session_id = session_id
        self._ready = array("Q")
        self._head = 0
        self._aside: array[int] | None = None
        self.lock: SessionLock | None = None
        self.message_count = 0
        """Its messages in any state, including those in flight."""
        self.standing = 0
        """The head under which it is in the heap of offers; 0 when it is not."""
        self.state_length = NO_STATE
        self.state_position = 0
        self.state_updated_ms = 0

    @property
    def is_empty(self) -> bool:
        """Whether it has no messages, no state and no holder (SES-2)."""
        return not self.message_count and self.lock is None and self.state_length == NO_STATE

    @property
    def is_active(self) -> bool:
        """Whether it has messages that wait or are in flight."""
        return self.first() > 0 or (self.lock is not None and bool(self.lock.in_flight))

    # --- waiting messages -------------------------------------------------------------------

    def first(self) -> int:
        """The waiting message to be delivered next; 0 when none waits."""
        return self._ready[self._head] if self._head < len(self._ready) else 0

    def add(self, sequence: int) -> None:
        """A message waits, in its place in the order (SES-9)."""
        ready = self._ready
        if self._head >= len(ready) or ready[-1] < sequence:
            ready.append(sequence)
            return
        at = bisect_left(ready, sequence, self._head)
        if at == self._head and at:
            # A message that comes back to the front takes the slot that it left there.
            self._head = at - 1
            ready[at - 1] = sequence
        else:
            ready.insert(at, sequence)

    def pop(self) -> int:
        """Take the first of the waiting messages; there must be one."""
        sequence = self._ready[self._head]
        self._head += 1
        if self._head >= len(self._ready):
            self._ready = array("Q")
            self._head = 0
        elif self._head > _HEAD_MAX and self._head * 2 > len(self._ready):
            del self._ready[: self._head]
            self._head = 0
        return sequence

    def discard(self, sequence: int) -> None:
        """A message no longer waits; ignored if it did not."""
        at = bisect_left(self._ready, sequence, self._head)
        if at < len(self._ready) and self._ready[at] == sequence:
            del self._ready[at]

    def waiting(self, from_sequence: int) -> "array[int]":
        """The numbers of waiting messages from one on, in order."""
        return self._ready[bisect_left(self._ready, from_sequence, self._head) :]

    # --- deferred and scheduled messages ------------------------------------------------------

    def set_aside(self, sequence: int) -> None:
        """A message is deferred or scheduled: out of the order (SES-21)."""
        if self._aside is None:
            self._aside = array("Q")
        self._aside.insert(bisect_left(self._aside, sequence), sequence)

    def fetch(self, sequence: int) -> None:
        """A message is no longer deferred or scheduled."""
        aside = self._aside
        if aside is None:
            return
        at = bisect_left(aside, sequence)
        if at < len(aside) and aside[at] == sequence:
            del aside[at]
        if not aside:
            self._aside = None

    def aside(self, from_sequence: int) -> "array[int]":
        """The numbers of deferred and scheduled messages from one on, in order."""
        if self._aside is None:
            return array("Q")
        return self._aside[bisect_left(self._aside, from_sequence) :]


class SessionLock:
    """The hold of one receiver on a session and all its messages (SES-6, SES-8)."""

    __slots__ = (
        "consumer",
        "in_flight",
        "is_closing",
        "is_lapsed",
        "number",
        "returning",
        "session",
        "successors",
        "until_ms",
    )

    def __init__(
        self, session: Session, consumer: SessionConsumer, number: int, until_ms: int
    ) -> None:
        self.session = session
        self.consumer = consumer
        self.number = number
        """Proves to the fragment that the caller still holds the session."""
        self.until_ms = until_ms
        self.in_flight: dict[int, Held] = {}
        """Delivered and not settled, by token."""
        self.returning: set[int] = set()
        """Abandoned, but not durably yet: they are next, so nothing else is delivered until
        then."""
        self.is_closing = False
        """The holder has left; the session is free when nothing is in flight any more."""
        self.is_lapsed = False
        """It lapsed: messages in flight count as deliveries (SES-13)."""
        self.successors: list[SessionConsumer] = []
        """Receivers that asked for this session while it was closing."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the session is in flight."""
        return not self.in_flight and not self.consumer.consuming


class Sessions:
    """All sessions of a fragment."""

    __slots__ = (
        "_by_number",
        "_free_numbers",
        "_offers",
        "acceptors",
        "by_id",
        "lock_of",
        "locks",
        "numbers",
        "touched",
    )

    def __init__(self) -> None:
        self.by_id: dict[str, Session] = {}
        self._by_number: list[Session | None] = [None]
        self._free_numbers: list[int] = []
        self.numbers = WordMap(array("I", [0]))
        """The number of each message's session; `NOBODY` for one that has none."""
        self._offers: list[int] = []
        """Heads of free sessions, each with its session's number in the low bits: a heap."""
        self.locks: dict[int, SessionLock] = {}
        """Held sessions by the number of the lock, first to lapse first."""
        self.lock_of: dict[Consumer, SessionLock] = {}
        self.acceptors: dict[SessionConsumer, None] = {}
        """Receivers that take any session, longest waiting first (SES-4)."""
        self.touched: dict[Session, None] = {}
        """Held sessions that have changed since they were last served."""

    # --- sessions and their messages ----------------------------------------------------------

    def get(self, session_id: str) -> Session:
        """A session by its id; created when there is none (SES-3)."""
        session = self.by_id.get(session_id)
        if session is None:
            if self._free_numbers:
                number = self._free_numbers.pop()
            else:
                number = len(self._by_number)
                self._by_number.append(None)
            session = self.by_id[session_id] = Session(number, session_id)
            self._by_number[number] = session
        return session

    def restore(self, number: int, session_id: str) -> Session:
        """A session of a snapshot, under the number it had."""
        while len(self._by_number) <= number:
            self._by_number.append(None)
        session = self.by_id[session_id] = Session(number, session_id)
        self._by_number[number] = session
        return session

    def restored(self) -> None:
        """All sessions of a snapshot are loaded: the numbers between them are free."""
        numbers = range(1, len(self._by_number))
        self._free_numbers = [n for n in numbers if self._by_number[n] is None]

    def numbered(self, number: int) -> Session:
        """A session by its number, which must exist."""
        session = self._by_number[number]
        assert session is not None
        return session

    def find(self, sequence: int) -> Session | None:
        """The session of a message, if it is in one."""
        number = self.numbers.get(sequence)
        return None if number == NOBODY else self._by_number[number]

    def of(self, sequence: int) -> Session:
        """The session of a message that has one."""
        return self.numbered(self.numbers.get(sequence))

    def enter(self, sequence: int, session_id: str) -> None:
        """A new message belongs to a session."""
        session = self.get(session_id)
        session.message_count += 1
        self.numbers.put(sequence, session.number)

    def renumber(self, old: int, new: int) -> None:
        """A scheduled message was activated under a new number."""
        number = self.numbers.drop(old)
        if number != NOBODY:
            self.numbers.put(new, number)

    def forget(self, sequences: Iterable[int]) -> None:
        """Messages have left their sessions for good; unknown ones are ignored."""
        for sequence in sequences:
            number = self.numbers.drop(sequence)
            if number != NOBODY:
                session = self.numbered(number)
                session.message_count -= 1
                self.drop_if_empty(session)

    def drop_if_empty(self, session: Session) -> None:
        """Remove a session with no messages, no state and no holder."""
        if session.is_empty and self.by_id.get(session.session_id) is session:
            del self.by_id[session.session_id]
            self._by_number[session.number] = None
            self._free_numbers.append(session.number)
            self.touched.pop(session, None)

    def __iter__(self) -> Iterator[Session]:
        return iter(self.by_id.values())

    # --- waiting messages -----------------------------------------------------------------

    def added(self, sequence: int) -> None:
        """A message waits: serve its session, or offer it."""
        session = self.of(sequence)
        session.add(sequence)
        if session.lock is None:
            self.offer(session)
        else:
            self.touched[session] = None

    def removed(self, sequence: int) -> None:
        """A message no longer waits."""
        self.of(sequence).discard(sequence)

    def touch_held_by(self, consumer: Consumer) -> None:
        """Something happened to the session that a receiver holds or has held."""
        lock = self.lock_of.get(consumer)
        if lock is not None:
            self.touched[lock.session] = None

    def hold_back(self, messages: Iterable[Held]) -> None:
        """Messages are being returned; their sessions wait for them (SES-10)."""
        for held in messages:
            lock = self.of(held.sequence).lock
            if lock is not None:
                lock.returning.add(held.sequence)

    # --- offers -----------------------------------------------------------------------------

    def offer(self, session: Session) -> None:
        """Offer a free session with waiting messages to receivers of any session."""
        head = session.first()
        if not head or 0 < session.standing <= head:
            return
        session.standing = head
        heappush(self._offers, head << _NUMBER_BITS | session.number)
        if len(self._offers) > _STALE_OFFERS_MIN + 2 * len(self.by_id):
            self._drop_stale_offers()

    def oldest(self) -> Session | None:
        """The free session whose head message has waited longest (SES-25)."""
        offers = self._offers
        while offers:
            head = offers[0] >> _NUMBER_BITS
            session = self._by_number[offers[0] & _NUMBER_MASK]
            if session is not None and session.standing == head:
                if session.lock is None and session.first() == head:
                    return session
                session.standing = 0
                heappop(offers)
                if session.lock is None:
                    self.offer(session)
            else:
                heappop(offers)
        return None

    def _drop_stale_offers(self) -> None:
        self._offers = [
            session.standing << _NUMBER_BITS | session.number
            for session in self.by_id.values()
            if session.standing
        ]
        heapify(self._offers)

    # --- locks ------------------------------------------------------------------------------

    def lock(
        self, session: Session, consumer: SessionConsumer, number: int, until_ms: int
    ) -> SessionLock:
        """Give a free session to a receiver."""
        assert session.lock is None
        lock = SessionLock(session, consumer, number, until_ms)
        session.lock = self.locks[number] = self.lock_of[consumer] = lock
        return lock

    def renew(self, lock: SessionLock, until_ms: int) -> None:
        """Extend a lock and move it to the end of the order of lapsing."""
        lock.until_ms = until_ms
        del self.locks[lock.number]
        self.locks[lock.number] = lock

    def hand_on(
        self, lock: SessionLock, consumer: SessionConsumer, number: int, until_ms: int
    ) -> None:
        """Another receiver holds the session from now on, with its messages in flight (SES-27)."""
        del self.locks[lock.number], self.lock_of[lock.consumer]
        lock.consumer, lock.number, lock.until_ms = consumer, number, until_ms
        self.locks[number] = self.lock_of[consumer] = lock
        self.touched[lock.session] = None

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: the remaining time of locks stays the same."""
        for lock in self.locks.values():
            lock.until_ms += delta_ms

    def unlock(self, lock: SessionLock) -> None:
        """The session is free."""
        assert lock.is_idle
        del self.locks[lock.number]
        del self.lock_of[lock.consumer]
        lock.session.lock = None

    def valid_lock(self, session_id: str | None, number: int, now_ms: int) -> SessionLock | None:
        """The lock with this number, if it is on this session and has not lapsed (SES-12)."""
        lock = self.locks.get(number)
        if lock is None or lock.is_closing or lock.until_ms <= now_ms:
            return None
        return lock if lock.session.session_id == session_id else None
