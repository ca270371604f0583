"""The main subqueue of a fragment whose messages come in sessions.

Owns the join of the subqueue's tables with the index of sessions: whatever puts a message into a
table or takes it out, the index follows. A message in flight is locked by its session and has no
lock of its own (SES-8). `dispatch` decides who is served when.
"""

from partibus.fragment.commands import Consumer, SubQueueType
from partibus.fragment.message import Held
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.sessions.commands import SessionConsumer
from partibus.fragment.sessions.state import Session, SessionLock, Sessions


class SessionTable(MessageTable):
    """A table whose messages are indexed by session; subclasses differ in how a session lists
    them."""

    __slots__ = ("_sessions",)

    def __init__(self, sessions: Sessions) -> None:
        super().__init__()
        self._sessions = sessions

    def _added(self, sequence: int) -> None:
        raise NotImplementedError

    def _removed(self, sequence: int) -> None:
        raise NotImplementedError

    def push(
        self,
        sequence: int,
        position: int,
        length: int,
        enqueued_ms: int,
        expires_ms: int,
        extra: int,
    ) -> None:
        super().push(sequence, position, length, enqueued_ms, expires_ms, extra)
        self._added(sequence)

    def insert(self, held: Held) -> None:
        is_pushed = held.sequence > self.last_sequence
        super().insert(held)
        if not is_pushed:
            self._added(held.sequence)

    def take(self, sequence: int) -> Held | None:
        held = super().take(sequence)
        if held is not None:
            self._removed(sequence)
        return held

    def _take_noted(self, sequence: int) -> Held | None:
        """Take a message that its session has already removed."""
        return super().take(sequence)

    def take_expired(self, now_ms: int, limit: int) -> list[Held]:
        expired = super().take_expired(now_ms, limit)
        for held in expired:
            self._removed(held.sequence)
        return expired

    def adopt(self, table: MessageTable) -> None:
        """Take over the rows of a table without sessions, which must not be used any more."""
        self.take_over(table)
        for held in self.copies(0):
            self._added(held.sequence)


class ReadyTable(SessionTable):
    """Waiting messages; their sessions know them in order."""

    __slots__ = ()

    def _added(self, sequence: int) -> None:
        self._sessions.added(sequence)

    def _removed(self, sequence: int) -> None:
        self._sessions.removed(sequence)

    def take_first(self, session: Session) -> Held:
        """Take the first waiting message of a session; there must be one."""
        held = self._take_noted(session.pop())
        assert held is not None
        return held


class AsideTable(SessionTable):
    """Deferred or scheduled messages; their sessions know them."""

    __slots__ = ()

    def _added(self, sequence: int) -> None:
        self._sessions.of(sequence).set_aside(sequence)

    def _removed(self, sequence: int) -> None:
        self._sessions.of(sequence).fetch(sequence)


class SessionSubQueue(SubQueue):
    """A main queue in which each session is received by one receiver at a time."""

    __slots__ = ("in_sessions", "waiting_in_sessions")

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(SubQueueType.MAIN)
        self.in_sessions = sessions
        self.sessions = sessions
        self.waiting_in_sessions = ReadyTable(sessions)
        self.ready = self.waiting_in_sessions

    def adopt(self, subqueue: SubQueue) -> None:
        """Take over the contents of a subqueue without sessions, which must not be used any
        more."""
        assert not subqueue.locks and not subqueue.leaving
        self.waiting_in_sessions.adopt(subqueue.ready)
        deferred = AsideTable(self.in_sessions)
        deferred.adopt(subqueue.deferred)
        self.deferred = deferred

    # --- receivers --------------------------------------------------------------------------

    def demand(self, consumer: Consumer, limit: int) -> None:
        consumer.limit = limit
        self.in_sessions.touch_held_by(consumer)

    def forget(self, consumer: Consumer) -> None:
        """The receiver has left: its session is released without counting deliveries (SES-14)."""
        super().forget(consumer)
        if isinstance(consumer, SessionConsumer):
            self.in_sessions.acceptors.pop(consumer, None)
        lock = self.in_sessions.lock_of.get(consumer)
        if lock is not None and not lock.is_closing:
            self.release(lock)

    def release(self, lock: SessionLock) -> None:
        """End a session's lock; messages in flight wait again, as if never delivered."""
        lock.is_closing = True
        for held in [held for held in lock.in_flight.values() if not held.busy]:
            self.unlock(held)
            self.put_back(held)
        self.in_sessions.touched[lock.session] = None

    # --- messages in flight -----------------------------------------------------------------

    def lock(self, held: Held, token: int, until_ms: int) -> None:
        lock = self.in_sessions.of(held.sequence).lock
        assert lock is not None
        super().lock(held, token, lock.until_ms)
        lock.in_flight[token] = held

    def unlock(self, held: Held) -> None:
        session = self.in_sessions.of(held.sequence)
        lock = session.lock
        assert lock is not None
        del lock.in_flight[held.token]
        lock.returning.discard(held.sequence)
        self.in_sessions.touched[session] = None
        super().unlock(held)

    def stay_locked(self, held: Held) -> None:
        """A settlement failed: the message stays in flight if the session is held."""
        super().stay_locked(held)
        lock = self.in_sessions.of(held.sequence).lock
        assert lock is not None
        lock.returning.discard(held.sequence)
        self.in_sessions.touched[lock.session] = None
        if lock.is_closing and not lock.is_lapsed:
            self.unlock(held)
            self.put_back(held)

    def valid_lock(self, token: int, now_ms: int) -> Held | None:
        held = self.locks.get(token)
        if held is None or held.busy:
            return None
        lock = self.in_sessions.of(held.sequence).lock
        if lock is None or lock.is_closing or lock.until_ms <= now_ms:
            return None
        return held

    def renew(self, held: Held, until_ms: int) -> None:
        """Only the session's lock can be renewed (SES-8)."""
        lock = self.in_sessions.of(held.sequence).lock
        assert lock is not None
        self.in_sessions.renew(lock, until_ms)

    def lapsed(self, now_ms: int, limit: int) -> list[Held]:
        """Always empty: messages lapse with their session."""
        return []

    def next_lapse_ms(self) -> int | None:
        for lock in self.in_sessions.locks.values():
            return self.scan_first(lock.until_ms)
        return None
