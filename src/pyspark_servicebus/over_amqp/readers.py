"""Which reader a read over AMQP gets, and the reader of snapshots.

Owns the choice by mode, and `mode=peek`: a snapshot, divided into ranges of sequence numbers where
a few requests can find them. Called by the data source.
"""

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.over_amqp.deferclaim_stream import DeferClaimStream
from pyspark_servicebus.over_amqp.holding import place_of
from pyspark_servicebus.over_amqp.peeklock import PeekLockReader, PeekLockStream
from pyspark_servicebus.over_amqp.ranges import cut
from pyspark_servicebus.over_amqp.tasks import RangePartition
from pyspark_servicebus.over_amqp.wire import Wire
from pyspark_servicebus.source.batch_reader import TaskReader
from pyspark_servicebus.source.stream_reader import StreamReader


def batch_reader(options: SourceOptions) -> DataSourceReader:
    """The reader of `spark.read`."""
    return PeekLockReader(options) if options.mode == "peeklock" else PeekReader(options)


def stream_reader(options: SourceOptions) -> StreamReader:
    """The reader of `spark.readStream`."""
    return PeekLockStream(options) if options.mode == "peeklock" else DeferClaimStream(options)


class PeekReader(TaskReader):
    """A snapshot over AMQP."""

    def partitions(self) -> Sequence[InputPartition]:
        """One task for each range; a single one where the ranges are unknown."""
        options = self.options
        place = place_of(options)
        wire = Wire(place.access)
        try:
            ranges = cut(wire, place.path, options.partitions_min)
        finally:
            wire.close()
        if ranges is None:
            return [RangePartition(place, None)]
        return [RangePartition(place, [one]) for one in ranges]
