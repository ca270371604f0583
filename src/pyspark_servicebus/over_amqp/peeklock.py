"""Locked messages, with the token in a column, for queries that settle them themselves.

Owns the mode `peeklock`, of batches and of streams. The driver receives and passes messages and
tokens on to the tasks, so that a retried task sees the same ones. Nothing is settled here:
`settlement.settle` does it, and what it does not settle comes back. In a stream the driver renews
the locks of the current batch; a batch that is replayed after a crash has other messages, so this
is only at least once.
"""

import time
from collections.abc import Sequence
from typing import Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from pyspark_servicebus.errors import Backoff, BulkError
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.over_amqp.holding import place_of, portioned
from pyspark_servicebus.over_amqp.lock_keeper import LockKeeper
from pyspark_servicebus.over_amqp.receiving import CLOCK_MS, Received, receive
from pyspark_servicebus.over_amqp.tasks import LockedPartition
from pyspark_servicebus.over_amqp.wire import Wire
from pyspark_servicebus.source.batch_reader import TaskReader
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.stream_reader import StreamReader

MESSAGES_MAX: Final = 1000
"""Messages locked at a time, unless maxMessagesPerTrigger says otherwise."""
CHUNK_MESSAGES: Final = 200


class LockedMessages:
    """The driver's side: receives under locks, and makes tasks of it."""

    def __init__(self, options: SourceOptions) -> None:
        self.place = place_of(options)
        self._options = options
        self.wire = Wire(self.place.access)

    def take(self) -> list[Received]:
        """The available messages, within the limits of a batch; waits for an unreachable bus."""
        messages = self._options.messages_per_trigger or MESSAGES_MAX
        byte_count = self._options.bytes_per_trigger
        backoff = Backoff(self._options.retry_s)
        taken: list[Received] = []
        while len(taken) < messages and byte_count > 0:
            try:
                some = receive(
                    self.wire, self.place.path, min(CHUNK_MESSAGES, messages - len(taken))
                )
            except BulkError as error:
                backoff.wait_or_raise(error)
                continue
            if not some:
                break
            taken += some
            byte_count -= sum(one.holding.byte_count for one in some)
        return taken

    def give_back(self, taken: Sequence[Received]) -> None:
        """Release them as if they had never been received."""

        async def release(wire: Wire) -> None:
            receiver = await wire.receiver(self.place.path)
            receiver.release([one.delivery for one in taken])

        self.wire.call(release)

    def tasks(self, taken: Sequence[Received]) -> list[InputPartition]:
        """The tasks for them."""
        payloads = {one.holding.number: one.delivery.payload for one in taken}
        held = [one.holding for one in taken]
        return [
            LockedPartition(
                self.place.entity,
                [payloads[one.number] for one in some],
                [one.token for one in some],
            )
            for some in portioned(held, self._options.partitions_min)
        ]


class PeekLockReader(TaskReader):
    """`spark.read` with locks: every plan of the read locks its own messages."""

    def partitions(self) -> Sequence[InputPartition]:
        """Receive now."""
        locked = LockedMessages(self.options)
        try:
            return locked.tasks(locked.take())
        finally:
            # The locks stay: they do not belong to the link.
            locked.wire.close()


class PeekLockStream(StreamReader):
    """One set of locked messages for each batch."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._locked: LockedMessages | None = None
        self._keeper: LockKeeper | None = None
        self._number = -1
        self._taken: list[Received] = []
        """The messages of the batch with that number."""
        self._until_ms: int | None = None
        """Where an availableNow run ends."""
        self._seen: set[int] = set()
        """What such a run has received: a returned message is no reason to continue."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Nothing is received yet."""
        return SourceOffset(batch=0).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """The run ends when a trigger finds nothing new."""
        self._until_ms = int(time.time() * 1000) + CLOCK_MS

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Receive for the next batch; the locks of the previous one are no longer renewed."""
        number = (SourceOffset.from_json(start).batch or 0) + 1
        if self._number != number:
            self._receive(number)
        return SourceOffset(batch=number).as_json() if self._taken else start

    def _receive(self, number: int) -> None:
        if self._locked is None:
            self._locked = LockedMessages(self.options)
            self._keeper = LockKeeper(self._locked.place)
        assert self._keeper is not None
        self._keeper.keep([], 0)
        self._taken = self._take(self._locked)
        self._number = number if self._taken else -1
        if self._taken:
            lock_ms = min(one.locked_for_ms for one in self._taken)
            self._keeper.keep([one.holding for one in self._taken], lock_ms)

    def _take(self, locked: LockedMessages) -> list[Received]:
        """Messages for a batch; an availableNow run ends without new ones."""
        until_ms = self._until_ms
        passed: list[Received] = []
        while taken := locked.take():
            if until_ms is None:
                break
            old = {one.holding.number for one in taken if one.enqueued_ms <= until_ms}
            new = old - self._seen
            self._seen |= new
            if new:
                break
            # They came back, and are ahead of others that were not read yet.
            passed += taken
            if not old:
                taken = []
                break
        if passed:
            locked.give_back(passed)
        return taken

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch; of one that an earlier run began, with the messages that are there
        now."""
        if start == end:
            return []
        number = SourceOffset.from_json(end).batch or 0
        if self._number != number:
            self._receive(number)
        assert self._locked is not None
        return self._locked.tasks(self._taken)

    def stop(self) -> None:
        """Close the connections; Spark does not always call this."""
        if self._keeper is not None:
            self._keeper.stop()
        if self._locked is not None:
            self._locked.wire.close()
