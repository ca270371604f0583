"""Spark Connect on the standalone cluster: reads, streams and writes from a client without it all.

The server is the driver of both workers, so this is also where the source's modes and the sink run
in executors that share nothing with the driver.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

from spark.bus import Bus, once_each, texts
from spark.cluster.connect import connect_server, connected

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def remote(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("connect")
    with connect_server(cluster.url, place) as address, connected(address) as session:
        yield session


def stream(remote: SparkSession, options: dict[str, str]) -> DataFrame:
    return remote.readStream.format("servicebus").options(**options).load()


def test_a_snapshot_is_read_by_both_workers(
    remote: SparkSession, cluster: Cluster, bus: Bus
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 50)
    options = bus.options(queue, mode="peek", minPartitions=4)
    frame = remote.read.format("servicebus").options(**options).load()
    once_each(texts(frame.select("body").collect()), sent)
    assert bus.left(queue) == (50, 0, 0)
    assert len(cluster.executors()) == 2


def test_a_stream_behind_a_cursor(remote: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 50)
    options = bus.options(queue, mode="cursor", cursor="job", maxMessagesPerTrigger=30)
    writer = stream(remote, options).writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    once_each(texts(remote.read.parquet(str(tmp_path / "out")).select("body").collect()), sent)
    assert {path.name for path in (tmp_path / "checkpoint/commits").glob("?")} == {"0", "1"}
    assert bus.left(queue) == (50, 0, 0)


def test_rows_are_written(remote: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    frame = remote.range(40, numPartitions=2).selectExpr("cast(id as string) as body")
    frame.write.format("servicebus").options(**bus.options(queue)).mode("append").save()
    once_each([str(message) for message in bus.peek(queue)], map(str, range(40)))


def test_a_claim_from_one_queue_to_another(remote: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, target = bus.queue(), bus.queue("once")
    sent = bus.fill(queue, 50)
    options = bus.options(queue, mode="claim", claimOwner="job")
    writer = stream(remote, options).writeStream.format("servicebus")
    writer = writer.options(**bus.options(target, deliver="dedup"))
    writer = writer.option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    once_each([str(message) for message in bus.peek(target)], sent)
    assert bus.left(queue) == (0, 0, 0)


def test_errors_reach_the_client_in_the_words_of_the_source(remote: SparkSession, bus: Bus) -> None:
    options = bus.options("nowhere")
    with pytest.raises(PySparkException, match="nowhere") as caught:
        remote.read.format("servicebus").options(**options).load().count()
    assert "amqp:not-found" in str(caught.value)
