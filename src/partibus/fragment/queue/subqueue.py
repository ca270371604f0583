"""One subqueue of a fragment: its backlog, its locks and the receivers that wait.

Owns who gets which message next. Plain data structures with no idea of durability: the
machine decides what may change and when. Locks lie in the order in which they lapse,
because every lock lasts equally long and a renewal puts it at the end.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.fragment.commands import Consumer, SubQueueType
from partibus.fragment.message import Held
from partibus.fragment.queue.table import MessageTable

if TYPE_CHECKING:
    from partibus.fragment.sessions.state import Sessions

LOCK_SCAN_MS: Final = 1000
"""After the lock duration was made shorter, a lapsed lock may be noticed this much later."""


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
        """Locked messages that were received by their number."""
        self.locks: dict[int, Held] = {}
        """Locked messages by token, first to lapse first."""
        self.waiting: deque[Consumer] = deque()
        """Receivers with demand left, next to be served first (LCK-2)."""
        self.interested: dict[Consumer, None] = {}
        """Receivers that want to hear when messages wait, in the order they asked."""
        self.leaving: dict[int, Held] = {}
        """Messages out of the backlog without a lock, by sequence: taken by
        receive-and-delete or expired, with the removal not durable yet; or damaged."""
        self.unordered_until_ms = 0
        """Until then locks that last longer may stand before others: the entity's lock duration
        was made shorter. All are looked at, once every `LOCK_SCAN_MS`."""
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
        """Let a receiver have `limit` messages in all."""
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
        """The receiver to serve now; those whose demand is met leave the line."""
        waiting = self.waiting
        while waiting:
            consumer = waiting[0]
            if consumer.sent < consumer.limit:
                return consumer
            consumer.waiting = False
            waiting.popleft()
        return None

    def lock(self, held: Held, token: int, until_ms: int) -> None:
        """Put a message under an exclusive lock."""
        held.token = token
        held.locked_until_ms = until_ms
        self.locks[token] = held
        if held.deferred:
            self.deferred_locked_count += 1

    def unlock(self, held: Held) -> None:
        """Take the lock off; where the message goes is the caller's to say."""
        del self.locks[held.token]
        held.token = 0
        held.busy = False
        if held.deferred:
            self.deferred_locked_count -= 1

    def put_back(self, held: Held) -> None:
        """Return a message that is out of the tables to the one it came from (CON-15)."""
        (self.deferred if held.deferred else self.ready).insert(held)
        held.deferred = False

    def let_go(self, held: Held) -> None:
        """Drop a message from wherever it waits for its departure to be durable."""
        if held.token:
            self.unlock(held)
        else:
            del self.leaving[held.sequence]
            held.busy = False

    def stay_locked(self, held: Held) -> None:
        """A settlement failed: the message stays under its lock."""
        held.busy = False

    def valid_lock(self, token: int, now_ms: int) -> Held | None:
        """The message that this token holds right now (LCK-5)."""
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
        """The clock was set: locks last as long as they would have."""
        for held in self.locks.values():
            held.locked_until_ms += delta_ms
        if self.unordered_until_ms:
            self.unordered_until_ms += delta_ms
            self.next_scan_ms += delta_ms

    # --- locks of different lengths -----------------------------------------------------------

    def shorten_locks(self, now_ms: int, longest_until_ms: int) -> None:
        """Locks from now on are shorter; those that stand last until then at the most."""
        self.unordered_until_ms = max(self.unordered_until_ms, longest_until_ms)
        self.next_scan_ms = now_ms + LOCK_SCAN_MS

    def look_through(self, now_ms: int) -> bool:
        """Whether locks lie in the order in which they lapse; sets when to look again if not."""
        if not self.unordered_until_ms:
            return True
        if now_ms >= self.unordered_until_ms:
            self.unordered_until_ms = 0
        self.next_scan_ms = now_ms + LOCK_SCAN_MS
        return False

    def scan_first(self, lapse_ms: int) -> int:
        """When to look: at the first lock's end, or before when the first may not end first."""
        return min(lapse_ms, self.next_scan_ms) if self.unordered_until_ms else lapse_ms
