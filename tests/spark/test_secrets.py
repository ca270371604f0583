"""The key of the connection string stays where it was given: nothing that travels has it."""

import logging
import pickle
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from pyspark_servicebus.options import sink_options, source_options
from pyspark_servicebus.sink.writers import StreamWriter
from pyspark_servicebus.source.batch_reader import BatchReader
from spark.bus import Bus
from spark.source.driving import Log, Query
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.sas import with_key

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
KEY = ROOT_KEY.encode()


def spread(value: object) -> bytes:
    """Everything of an object that would travel."""
    return pickle.dumps(value) + cloudpickle.dumps(value) + repr(value).encode()


@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_readers_and_partitions(bus: Bus, mode: str) -> None:
    queue = bus.queue()
    bus.fill(queue, 10)
    name = {"cursor": "cursor", "claim": "claimOwner"}[mode]
    query = Query(Log(), bus.options(queue, mode=mode, **{name: "job"}))
    assert query.plan()
    start, end = query.log.offsets
    partitions = query.reader.partitions(start, end)
    assert partitions
    for travels in (query.reader.read, *partitions, query.log, query.reader):
        assert KEY not in spread(travels)
    batch = BatchReader(source_options(bus.options(queue), is_stream=False))
    for travels in (batch.read, *batch.partitions()):
        assert KEY not in spread(travels)
    # It is the search that would have found it.
    assert KEY in spread(bus.options(queue))


def test_writers(bus: Bus) -> None:
    schema = StructType().add("body", StringType()).add("target", StringType())
    options = sink_options(bus.options(bus.queue(), badRowQueue=bus.queue("plain")))
    writer = StreamWriter(options, schema)
    for travels in (writer, writer.write, writer.commit):
        assert KEY not in spread(travels)


def test_a_reference_travels_in_place_of_the_key(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "connection"
    path.write_text(bus.connection_string)
    queue = bus.queue()
    bus.fill(queue, 5)
    options = {"connectionStringRef": f"file:{path}", "queue": queue}
    reader = BatchReader(source_options(options, is_stream=False))
    (partition,) = reader.partitions()
    travels = pickle.dumps((reader.read, partition))
    assert KEY not in travels
    # A task that comes to its turn when the token has run out makes another.
    read, late = pickle.loads(travels)  # noqa: S301 - our own bytes
    late.access._renew_at = 0.0
    late.access._token = "SharedAccessSignature sr=x&sig=y&se=1&skn=z"
    assert sum(batch.num_rows for batch in read(late)) == 5


def test_checkpoints_plans_logs_and_errors(
    spark: SparkSession,
    spark_log: Path,
    bus: Bus,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    queue, target = bus.queue(), bus.queue()
    bus.fill(queue, 10)
    options = bus.options(queue, mode="claim", claimOwner="job")
    frame = spark.readStream.format("servicebus").options(**options).load().select("body")
    frame.explain(True)
    writer = frame.writeStream.format("servicebus").options(**bus.options(target))
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    query.explain(True)
    assert query.lastProgress["numInputRows"] == 10
    said = str(query.lastProgress)
    said += told(lambda: frame.writeStream.format("servicebus").start())
    missing = bus.options("nowhere")
    said += told(lambda: spark.read.format("servicebus").options(**missing).load().count())
    wrong = bus.options(queue) | {"connectionStringRef": bus.connection_string}
    said += told(lambda: spark.read.format("servicebus").options(**wrong).load().count())
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b'"claim"' in written  # the offsets are among it
    assert KEY not in written
    out, err = capfd.readouterr()
    assert "Physical Plan" in out
    log = spark_log.read_text()
    assert "INFO" in log
    for text in (said, out, err, log, caplog.text, bus.server.log_text()):
        assert ROOT_KEY not in text


def told(failing: object) -> str:
    assert callable(failing)
    with pytest.raises(PySparkException) as caught:
        failing()
    return str(caught.value) + repr(caught.value)


def test_a_wrong_key_is_told_without_the_key(spark: SparkSession, bus: Bus) -> None:
    wrong = with_key(bus.connection_string, ROOT_POLICY, "another-secret")
    options = bus.options(bus.queue()) | {"connectionString": wrong}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("servicebus").options(**options).load().count()
    assert "amqp:unauthorized-access" in str(caught.value)
    assert "another-secret" not in str(caught.value)
