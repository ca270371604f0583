"""One subqueue of a fragment: its backlog, its locks and the receivers that wait.

Owns who gets which message next. Plain data structures with no idea of durability: the machine
decides what may change and when. Locks are kept in the order in which they lapse, because all locks
have the same duration and a renewal moves a lock to the end.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.fragment.commands import Consumer, SubQueueType
from partibus.fragment.message import Held
from partibus.fragment.queue.table import MessageTable

if TYPE_CHECKING:
    from partibus.fragment.sessions.state import Sessions

LOCK_SCAN_MS: Final = 1000
"""After the lock duration was reduced, a lapsed lock may be noticed this much later."""


class SubQueue:
    """The main queue of a fragment, or one of its dead-letter queues."""

    __slots__ = (
        "deferred",
        "deferred_locked_count",
        "interested",
        "leaving",
        "locks",
        "next_scan_ms",
        "ready",
        "sessions",
        "subqueue",
        "unordered_until_ms",
        "waiting",
    )

    def __init__(self, subqueue: SubQueueType) -> None:
        self.subqueue = subqueue
        self.sessions: Sessions | None = None
        """The sessions of the main subqueue, where the entity requires them."""
        self.ready = MessageTable()
        """Messages that wait to be received, oldest first."""
        self.deferred = MessageTable()
        """Messages that are received by their number alone (DEF-1)."""
        self.deferred_locked_count = 0
        """Locked messages that were received by number."""
        self.locks: dict[int, Held] = {}
        """Locked messages by token, first to lapse first."""
        self.waiting: deque[Consumer] = deque()
        """Receivers with demand left, next to be served first (LCK-2)."""
        self.interested: dict[Consumer, None] = {}
        """Receivers that want to be notified when messages wait, in the order they asked."""
        self.leaving: dict[int, Held] = {}
        """Messages out of the backlog without a lock, by sequence: taken by receive-and-delete or
        expired, with their removal not durable yet; or damaged."""
        self.unordered_until_ms = 0
        """Until then locks may be out of order, because the entity's lock duration was reduced. All
        of them are checked, once every `LOCK_SCAN_MS`."""
        self.next_scan_ms = 0

    @property
    def message_count(self) -> int:
        """All messages of the subqueue, in whatever state."""
        return len(self.ready) + len(self.deferred) + len(self.locks) + len(self.leaving)

    @property
    def locked_count(self) -> int:
        """Locked messages that are active, not deferred."""
        return len(self.locks) - self.deferred_locked_count

    def demand(self, consumer: Consumer, limit: int) -> None:
        """Allow a receiver `limit` messages in all."""
        consumer.limit = limit
        if limit > consumer.sent and not consumer.waiting:
            consumer.waiting = True
            self.waiting.append(consumer)

    def forget(self, consumer: Consumer) -> None:
        """The receiver has left."""
        consumer.limit = consumer.sent
        consumer.draining = False
        self.interested.pop(consumer, None)
        if consumer.waiting:
            consumer.waiting = False
            self.waiting.remove(consumer)

    def next_consumer(self) -> Consumer | None:
        """The receiver to serve next; those whose demand is met leave the line."""
        waiting = self.waiting
        while waiting:
            consumer = waiting[0]
            if consumer.sent < consumer.limit:
                return consumer
            consumer.waiting = False
            waiting.popleft()
        return None

    def lock(self, held: Held, token: int, until_ms: int) -> None:
        """Lock a message exclusively."""
        held.token = token
        held.locked_until_ms = until_ms
        self.locks[token] = held
        if held.deferred:
            self.deferred_locked_count += 1

    def unlock(self, held: Held) -> None:
        """Remove the lock; the caller decides where the message goes."""
        del self.locks[held.token]
        held.token = 0
        held.busy = False
        if held.deferred:
            self.deferred_locked_count -= 1

    def put_back(self, held: Held) -> None:
        """Return a message to the table it came from (CON-15)."""
        (self.deferred if held.deferred else self.ready).insert(held)
        held.deferred = False

    def leave(self, messages: list[Held]) -> None:
        """Messages that are out of the tables, without a lock, wait for their removal to be
        durable."""
        for held in messages:
            held.busy = True
            self.leaving[held.sequence] = held

    def stay(self, messages: list[Held]) -> None:
        """The store failed: messages that were to leave go back to their tables."""
        for held in messages:
            self.let_go(held)
            self.put_back(held)

    def let_go(self, held: Held) -> None:
        """Drop a message from wherever it waits for its removal to be durable."""
        if held.token:
            self.unlock(held)
        else:
            del self.leaving[held.sequence]
            held.busy = False

    def stay_locked(self, held: Held) -> None:
        """A settlement failed: the message stays locked."""
        held.busy = False

    def valid_lock(self, token: int, now_ms: int) -> Held | None:
        """The message that this token locks now (LCK-5)."""
        held = self.locks.get(token)
        if held is None or held.busy or held.locked_until_ms <= now_ms:
            return None
        return held

    def renew(self, held: Held, until_ms: int) -> None:
        """Extend a lock and move it to the end of the order of lapsing."""
        held.locked_until_ms = until_ms
        del self.locks[held.token]
        self.locks[held.token] = held

    def lapsed(self, now_ms: int, limit: int) -> list[Held]:
        """Expired locks without a settlement under way, at most `limit` of them."""
        out: list[Held] = []
        if not limit:
            return out
        is_ordered = self.look_through(now_ms)
        for held in self.locks.values():
            if held.locked_until_ms > now_ms:
                if is_ordered:
                    break
            elif not held.busy:
                out.append(held)
                if len(out) >= limit:
                    break
        return out

    def next_lapse_ms(self) -> int | None:
        """A time before which no lock lapses; None when nothing is locked."""
        for held in self.locks.values():
            return self.scan_first(held.locked_until_ms)
        return None

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: the remaining time of locks stays the same."""
        for held in self.locks.values():
            held.locked_until_ms += delta_ms
        if self.unordered_until_ms:
            self.unordered_until_ms += delta_ms
            self.next_scan_ms += delta_ms

    # --- locks of different lengths -----------------------------------------------------------

    def shorten_locks(self, now_ms: int, longest_until_ms: int) -> None:
        """New locks are shorter from now on; existing ones last until this time at most."""
        self.unordered_until_ms = max(self.unordered_until_ms, longest_until_ms)
        self.next_scan_ms = now_ms + LOCK_SCAN_MS

    def look_through(self, now_ms: int) -> bool:
        """Whether locks are in the order in which they lapse; if not, sets when to check again."""
        if not self.unordered_until_ms:
            return True
        if now_ms >= self.unordered_until_ms:
            self.unordered_until_ms = 0
        self.next_scan_ms = now_ms + LOCK_SCAN_MS
        return False

    def scan_first(self, lapse_ms: int) -> int:
        """When to check: when the first lock ends, or earlier if locks may be out of order."""
        return min(lapse_ms, self.next_scan_ms) if self.unordered_until_ms else lapse_ms
