"""A streaming query without Spark: the reader's methods, called as Spark calls them.

Owns the order of calls that was seen of Spark 4.3: a batch is planned, written to the offset log,
read by copies of the reader that hold no state of the driver, written to the commit log, and only
then the next one is asked for. A crash is to stop calling. Quick, and every moment can be chosen.
"""

import pickle
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_servicebus.options import source_options
from pyspark_servicebus.over_amqp.readers import stream_reader
from pyspark_servicebus.source.claim_stream import ClaimStream
from pyspark_servicebus.source.cursor_stream import CursorStream
from pyspark_servicebus.source.stream_reader import Offset, StreamReader

Rows = list[dict[str, Any]]


@dataclass
class Log:
    """What a checkpoint keeps."""

    offsets: list[Offset] = field(default_factory=list)
    committed: int = 0
    """Batches that are done: offsets[committed] is the end of the last one."""


class Query:
    """One run of a query over a log."""

    def __init__(self, log: Log, options: dict[str, str], available_now: bool = False) -> None:
        read = source_options(options, is_stream=True)
        made: StreamReader
        if read.transport == "amqp":
            made = stream_reader(read)
        else:
            made = ClaimStream(read) if read.mode == "claim" else CursorStream(read)
        self.reader = made
        self.log = log
        if available_now:
            made.prepareForTriggerAvailableNow()
        first = made.initialOffset()
        if not log.offsets:
            log.offsets.append(first)

    @property
    def _is_replay(self) -> bool:
        return len(self.log.offsets) > self.log.committed + 1

    def plan(self) -> bool:
        """Write the next batch to the offset log; whether there is one."""
        if self._is_replay:
            return True
        start = self.log.offsets[-1]
        limit = self.reader.getDefaultReadLimit() if self.limited else ReadAllAvailable()
        end = self.reader.latestOffset(start, limit)
        if end == start:
            return False
        self.log.offsets.append(pickle.loads(pickle.dumps(end)))  # noqa: S301 - our own bytes
        return True

    limited = True

    def read(self) -> Rows:
        """The rows of the batch that is planned; each task by a copy of the reader."""
        start, end = self.log.offsets[self.log.committed : self.log.committed + 2]
        rows: Rows = []
        for partition in self.reader.partitions(start, end):
            task = pickle.dumps((self.reader.read, partition))
            read, part = pickle.loads(task)  # noqa: S301 - our own bytes
            for batch in read(part):
                rows += batch.to_pylist()
        return rows

    def commit(self) -> None:
        """The batch is in the commit log."""
        self.log.committed += 1

    def batch(self) -> Rows | None:
        """One batch from its plan to its end; None when there is nothing to do."""
        if not self.plan():
            return None
        rows = self.read()
        self.commit()
        return rows

    def drain(self) -> Rows:
        """Batches until there is nothing to do."""
        rows: Rows = []
        while (batch := self.batch()) is not None:
            rows += batch
        return rows

    def stop(self) -> None:
        self.reader.stop()
