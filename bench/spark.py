"""`python -m bench.spark`: messages into Spark and out of it, against files and a naive reader.

Owns the queries that are compared and the sum of what each has cost: the server, the JVM, and
Spark's Python workers apart. The same rows are read from Parquet files by the JVM alone, which is
the floor, and from the queue by a data source that uses the stock client, which is what one would
write by hand. Needs Java; one Spark session for everything.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import gauge
from bench.bus import Bus
from bench.naive_spark import register_naive
from bench.peers import QUEUE
from partibus.ops.compiled import is_compiled

FRAGMENTS: Final = 16
BODY_BYTES: Final = 1024
CORES: Final = 2
UPKEEP: Final = ("C1 ", "C2 ", "GC ", "G1 ", "VM ")
FEW: Final = "body,message_id,enqueued_time,sequence_number,fragment"
_UNIQUE: Final = ("body", "message_id", "sequence_number", "enqueued_sequence_number")
PARQUET: Final = {
    **{f"parquet.enable.dictionary#{name}": "false" for name in _UNIQUE},
    "parquet.column.statistics.enabled#body": "false",
}
"""What the guide says for writing messages: no dictionaries of what is never the same."""
_OPTIONS: Final = """max_size_in_megabytes = 5120
enable_partitioning = true
"""
CLAIMED: Final = ("claimed", "captured")
_NAMESPACE: Final = "\n".join(
    f'[[queue]]\nname = "{name}"\n{_OPTIONS}' for name in (QUEUE, *CLAIMED, "target")
)


@dataclass
class Cost:
    """One query: its time, and the processor time of each part."""

    count: int
    seconds: float
    server_s: float
    jvm_s: float
    python_s: float
    upkeep_s: float
    """What of the JVM's went into compiling and collecting, which a longer run has less of."""

    def total_s(self) -> float:
        """The processor time of all."""
        return self.server_s + self.jvm_s + self.python_s

    def line(self, name: str) -> str:
        parts = (self.server_s, self.jvm_s, self.python_s)
        each = [1e6 * part / self.count for part in parts]
        upkeep = 1e6 * self.upkeep_s / self.count
        numbers = "".join(f"{number:>9.1f}" for number in (*each, sum(each), upkeep))
        rates = f"{self.count / self.seconds:>12.0f}{CORES * self.count / sum(parts):>12.0f}"
        return f"{name:<44}{self.count:>9}{rates}{numbers}"


class Meter:
    """Reads the counters around a query."""

    def __init__(self, server_pid: int, jvm_pid: int) -> None:
        self._server = server_pid
        self._jvm = jvm_pid

    def _read(self) -> tuple[float, float, float, float, float]:
        jvm_s = gauge.cpu_seconds(self._jvm)
        tree_s = gauge.tree_cpu_seconds(self._jvm)
        upkeep_s = gauge.thread_cpu_seconds(self._jvm, *UPKEEP)
        server_s = gauge.cpu_seconds(self._server)
        return time.perf_counter(), server_s, jvm_s, tree_s - jvm_s, upkeep_s

    def measure(self, count: int, query: Callable[[], None]) -> Cost:
        before = self._read()
        query()
        after = self._read()
        parts = [late - early for early, late in zip(before, after, strict=True)]
        return Cost(count, *parts)


def session(directory: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(directory))
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


class Queries:
    """What is measured."""

    def __init__(self, spark: Any, bus: Bus, directory: Path, messages: int) -> None:
        self._spark = spark
        self._directory = directory
        self._messages = messages
        key = f"SharedAccessKeyName={bus.user};SharedAccessKey={bus.password}"
        self.connection = f"Endpoint=sb://127.0.0.1:{bus.port};{key};UseDevelopmentEmulator=true;"

    def options(self, queue: str, **given: object) -> dict[str, str]:
        options = {"connectionString": self.connection, "queue": queue}
        return options | {name: str(value) for name, value in given.items()}

    def fill(self, queue: str) -> None:
        """Messages of 1 KB over all fragments, by the bulk path."""
        from partibus.client.message import OutgoingMessage
        from pyspark_servicebus.access import Access
        from pyspark_servicebus.bus import Flight, discover
        from pyspark_servicebus.options import source_options

        read = source_options(self.options(queue), is_stream=False)
        access = Access(read.credentials, queue, 60.0)
        location = discover(access, queue).locations[0]
        assert location is not None
        noise = random.Random(0)

        def batch(first: int) -> list[bytes]:
            return [
                OutgoingMessage(
                    body=noise.randbytes(BODY_BYTES),  # never twice, or files would shrink
                    message_id=f"{number:032d}",
                    subject="bench",
                    properties={"number": number, "kind": "bench"},
                ).encode()
                for number in range(first, first + 1000)
            ]

        batches = (batch(first) for first in range(0, self._messages, 1000))
        sent = sum(answer["accepted"] for answer in Flight(queue, access).put(location, batches))
        assert sent == self._messages

    def read(self, queue: str, **given: object) -> Any:
        options = self.options(queue, **given)
        return self._spark.read.format("servicebus").options(**options).load()

    def stream(self, queue: str, **given: object) -> Any:
        options = self.options(queue, maxBytesPerTrigger="256MiB", **given)
        return self._spark.readStream.format("servicebus").options(**options).load()

    def drain(self, frame: Any, name: str, form: str, **given: str) -> None:
        writer = frame.writeStream.format(form).options(**given)
        if form == "parquet":
            writer = writer.option("path", str(self._directory / f"{name}.parquet"))
            writer = writer.option("compression", "zstd").options(**PARQUET)
        writer = writer.option("checkpointLocation", str(self._directory / f"{name}.checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def capture(self) -> None:
        """The pipeline, in windows of its usual size, behind a cursor of its own."""
        from pyspark_servicebus.pipelines.capture import CaptureSettings, capture
        from pyspark_servicebus.pipelines.run.place import BusPlace

        target = tempfile.mkdtemp(prefix="lake-", dir=self._directory)
        place = BusPlace(connection_string=self.connection)
        settings = CaptureSettings.from_table({"bus": place, "entity": QUEUE, "target": target})
        assert capture(self._spark, settings).rows == self._messages

    def into_files(self, frame: Any, name: str) -> str:
        path = str(self._directory / f"{name}.parquet")
        writer = frame.write.mode("overwrite").option("compression", "zstd")
        writer.options(**PARQUET).parquet(path)
        return path


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def run(queries: Queries, meter: Meter, options: argparse.Namespace) -> None:
    spark, messages, naive = queries._spark, options.messages, options.naive
    noop(queries.read(QUEUE))  # not counted: code warms up
    files = queries.into_files(queries.read(QUEUE), "all")

    def show(name: str, query: Callable[[], None], count: int = messages) -> None:
        if options.only in name:
            # The JVM compiles as it goes; a query that can be repeated is, and the least counts.
            rounds = 1 if name.startswith(("stream", "stock")) else options.rounds
            costs = [meter.measure(count, query) for _ in range(rounds)]
            print(min(costs, key=Cost.total_s).line(name), flush=True)

    show("Parquet files -> noop", lambda: noop(spark.read.parquet(files)))
    show("bus, all columns -> noop", lambda: noop(queries.read(QUEUE)))
    show("bus, five columns -> noop", lambda: noop(queries.read(QUEUE, columns=FEW)))
    show("bus, without bodies -> noop", lambda: noop(queries.read(QUEUE, includeBody="false")))
    show("bus, all columns -> Parquet", lambda: void(queries.into_files(queries.read(QUEUE), "a")))
    show(
        "Parquet files -> Parquet", lambda: void(queries.into_files(spark.read.parquet(files), "b"))
    )
    cursor = queries.stream(QUEUE, cursor="bench")
    show("stream behind a cursor -> noop", lambda: queries.drain(cursor, "c", "noop"))
    again = queries.stream(QUEUE, cursor="bench again")
    show("stream behind a cursor -> Parquet", lambda: queries.drain(again, "d", "parquet"))
    show("pipeline capture -> Parquet", queries.capture)
    claimed = queries.stream("claimed", mode="claim", claimOwner="bench")
    show("stream that claims -> noop", lambda: queries.drain(claimed, "e", "noop"))
    captured = queries.stream("captured", mode="claim", claimOwner="bench")
    show("stream that claims -> Parquet", lambda: queries.drain(captured, "f", "parquet"))
    rows = spark.read.parquet(files)
    target = queries.options("target")
    write = rows.write.format("servicebus").options(**target).mode("append")
    show("Parquet files -> bus", write.save)
    register_naive(spark)
    simple = spark.read.format("naive_servicebus").options(
        connection=queries.connection, queue=QUEUE, count=str(naive)
    )
    show("stock client -> noop", lambda: noop(simple.load()), naive)


def void(made: object) -> None:
    """What was made is not needed."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--naive", type=int, default=10_000, metavar="N", help="by the stock client (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="queries with this in the name")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="(%(default)s)")
    options = parser.parse_args()
    from pyspark_servicebus.java_runtime import JavaMissing, use_java

    try:
        use_java()
    except JavaMissing as error:
        print(f"left out: {error}")
        return
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spark-", dir=options.directory) as root:
        directory = Path(root).resolve()
        bus = Bus(directory / "bus", _NAMESPACE, "--stores", "4")
        bus.start()
        try:
            spark = session(directory)
            queries = Queries(spark, bus, directory, options.messages)
            for queue in (QUEUE, *CLAIMED):
                if queue == QUEUE or options.only in "stream that claims":
                    queries.fill(queue)
            jvm_pid = spark.sparkContext._gateway.proc.pid
            print(
                f"{options.messages} messages of {BODY_BYTES} bytes over {FRAGMENTS} fragments, "
                f"{'' if is_compiled() else 'not '}compiled; CPU in microseconds a message"
            )
            heads = ("server", "JVM", "Python", "all", "upkeep")
            rates = f"{'messages':>9}{'messages/s':>12}{f'{CORES} cores/s':>12}"
            print(f"{'':<44}{rates}" + "".join(f"{h:>9}" for h in heads))
            run(queries, Meter(bus.pid, jvm_pid), options)
            spark.stop()
        finally:
            bus.stop()


if __name__ == "__main__":
    main()
