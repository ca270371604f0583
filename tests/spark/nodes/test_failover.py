"""Queries of Spark while nodes and a database come and go: nothing is lost, nothing is doubled."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from adversity.waiting import wait_until
from spark.bus import texts
from spark.nodes.stand import LONG_S, Sender, Stand, new_stand
from support.postgres import PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("postgres"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """A database server that the test may end."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


class Running:
    """A query that may not end by itself."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._query = writer.trigger(processingTime="1 second").start()

    def check(self) -> None:
        """It runs. On a machine that is very busy Spark gives its own process up that took more
        than ten seconds to begin; then the query goes on from its checkpoint."""
        if not self._query.isActive:
            error = str(self._query.exception())
            assert "Python worker failed to connect back" in error, error
            self._query = self._writer.start()

    def stop(self) -> None:
        self._query.stop()


class Flow:
    """Two queries and what goes into them: a capture behind a cursor into Parquet files, and a
    transfer that claims from one queue and writes exactly once into another."""

    def __init__(self, stand: Stand, spark: "SparkSession", place: Path) -> None:
        self.stand = stand
        self.spark = spark
        self.place = place
        self.target = stand.queue()
        self.senders = [Sender(stand, stand.queue()) for _ in range(2)]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for sender in self.senders:
            self._stack.enter_context(sender)
        captured, claimed = (sender.queue for sender in self.senders)
        writers = [
            self._query(captured, mode="cursor", cursor="capture")
            .writeStream.format("parquet")
            .option("path", f"{self.place}/captured")
            .option("checkpointLocation", f"{self.place}/capture-checkpoint"),
            self._query(claimed, mode="claim", claimOwner="transfer")
            .select("body")
            .writeStream.format("servicebus")
            .options(**self.stand.options(self.target, deliver="staged", writer="transfer"))
            .option("checkpointLocation", f"{self.place}/transfer-checkpoint"),
        ]
        self.queries = [Running(writer) for writer in writers]
        for query in self.queries:
            self._stack.callback(query.stop)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def _query(self, queue: str, **given: str) -> Any:
        options = self.stand.options(queue, **given, minPartitions=2)
        return self.spark.readStream.format("servicebus").options(**options).load()

    def goes_on(self) -> None:
        """Return when both queries have more of every fragment than now."""
        capture, _ = self.senders
        _, before = self.stand.cursor(capture.queue)
        copied = self._copied()
        for sender in self.senders:
            sender.flows()
        wait_until(lambda: self._is_beyond(before, copied), "both queries go on", seconds=LONG_S)

    def _is_beyond(self, before: list[int], copied: int) -> bool:
        for query in self.queries:
            query.check()
        _, now = self.stand.cursor(self.senders[0].queue)
        moved = all(new > old + 1 for new, old in zip(now, before, strict=True))
        return moved and self._copied() >= copied + 50

    def _is_at_rest(self) -> bool:
        for query in self.queries:
            query.check()
        capture, transfer = self.senders
        left = self.stand.left(transfer.queue)
        return self.stand.cursor(capture.queue)[0] == 0 and left == (0, 0, 0)

    def _copied(self) -> int:
        return self.stand.totals(self.target)["active"]

    def check(self) -> None:
        """Both queries are read to their ends, and everything is there once."""
        for sender in self.senders:
            sender.stop()
        capture, transfer = self.senders
        wait_until(self._is_at_rest, "both have read all", seconds=LONG_S)
        for query in self.queries:
            query.check()
            query.stop()
        rows = self.spark.read.parquet(f"{self.place}/captured")
        numbers = [row[0] for row in rows.select("sequence_number").collect()]
        assert len(numbers) == len(set(numbers))
        capture.check(texts(rows.select("body").collect()))
        totals = self.stand.totals
        wait_until(lambda: not totals(self.target)["transfer"], "all is transferred")
        options = self.stand.options(self.target)
        copied = self.spark.read.format("servicebus").options(**options).load()
        transfer.check(texts(copied.select("body").collect()))


def test_capture_and_transfer_outlive_nodes_and_a_database(
    spark: "SparkSession", tmp_path: Path, postgres: PostgresServer, own: PostgresServer
) -> None:
    with (
        new_stand(tmp_path, postgres, own.dsn, postgres.dsn) as stand,
        Flow(stand, spark, tmp_path) as flow,
    ):
        flow.goes_on()
        for act in (kill_and_join, drain, freeze):
            act(stand, flow.goes_on)
        own.kill()
        own.start()
        flow.goes_on()
        flow.check()


def kill_and_join(stand: Stand, goes_on: Callable[[], None]) -> None:
    victim = stand.cluster.nodes[0]
    number = victim.number
    victim.sigkill()
    stand.await_moved(number)
    goes_on()
    victim.start()
    stand.cluster.settle()
    goes_on()


def drain(stand: Stand, goes_on: Callable[[], None]) -> None:
    node = stand.cluster.nodes[1]
    stand.drain(node)
    goes_on()
    stand.cluster.ask(lambda at: at.resume(node.number))


def freeze(stand: Stand, goes_on: Callable[[], None]) -> None:
    node = stand.cluster.nodes[2]
    number = node.number
    node.pause()
    stand.await_moved(number)
    node.resume()
    goes_on()
