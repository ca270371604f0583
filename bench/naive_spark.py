"""A data source for Spark as one would write it by hand: the stock client, row by row.

Owns the yardstick of `bench.spark` and nothing else: it peeks, so that it can be run again. Python
data sources that read rows are what Spark's own documentation shows.
"""

from collections.abc import Iterator
from typing import Any, Final

BATCH: Final = 250


def register_naive(spark: Any) -> None:
    """Make the format `naive_servicebus` known; its classes travel by value."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class NaiveReader(DataSourceReader):
        def __init__(self, options: dict[str, str]) -> None:
            self._options = options

        def read(self, partition: object) -> Iterator[tuple[Any, ...]]:
            from azure.servicebus import ServiceBusClient

            options, left = self._options, int(self._options["count"])
            client = ServiceBusClient.from_connection_string(options["connection"])
            with client, client.get_queue_receiver(options["queue"]) as receiver:
                while left > 0:
                    messages = receiver.peek_messages(max_message_count=min(left, BATCH))
                    if not messages:
                        return
                    left -= len(messages)
                    for message in messages:
                        yield (
                            b"".join(message.body),
                            message.message_id,
                            message.enqueued_time_utc,
                            message.sequence_number,
                        )

    class NaiveSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "naive_servicebus"

        def schema(self) -> str:
            return "body binary, id string, enqueued_time timestamp, sequence_number long"

        def reader(self, schema: object) -> DataSourceReader:
            return NaiveReader(dict(self.options))

    for made in (NaiveReader, NaiveSource):
        made.__module__ = "__main__"
    spark.dataSource.register(NaiveSource)
