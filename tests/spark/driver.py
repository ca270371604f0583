"""A streaming query as a program of its own, which tests can kill.

    python driver.py MASTER QUEUE DIRECTORY MESSAGES_PER_TRIGGER [MODE [BATCH ...]]

Claims the messages of a queue and writes their numbers to Parquet files, until nothing waits; with
MODE deferclaim over AMQP, with the notes of the claims in DIRECTORY/claims. The connection string
is in the variable BUS. In each of the batches that are named, one task stops in the middle of its
rows, puts its process into the file DIRECTORY/held-BATCH and goes on when there is a file
DIRECTORY/go-BATCH: so a test kills in the middle of a batch and not beside it. Says on standard
output: the process of the JVM, each batch that is done, and at the end how many rows are in the
files, how many numbers of messages, and of how many fragments.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Batches = Iterator[Any]


def main(
    master: str, queue: str, directory: str, per_trigger: str, mode: str = "claim", *held: str
) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    spark = (
        SparkSession.builder.master(master)
        .appName("killed")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", quick)
        .config("spark.executor.extraJavaOptions", quick)
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.executorEnv.BUS", os.environ["BUS"])
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    print("JVM", spark.sparkContext._gateway.proc.pid, flush=True)
    own = {"claimDuration": "10s"}
    if mode == "deferclaim":
        own = {"transport": "amqp", "claimLocation": f"{directory}/claims"}
    source = spark.readStream.format("servicebus").options(
        connectionStringRef="env:BUS",
        queue=queue,
        mode=mode,
        claimOwner="killed",
        **own,
        maxMessagesPerTrigger=per_trigger,
        minPartitions="4",
        columns="fragment,sequence_number,body",
    )
    frame = source.load()
    if held:
        frame = frame.mapInArrow(stopping(directory, held), frame.schema)
    query = (
        frame.writeStream.format("parquet")
        .option("path", f"{directory}/out")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    threading.Thread(target=tell, args=(query,), daemon=True).start()
    query.awaitTermination()
    numbers = f.count_distinct("fragment", "sequence_number")
    rows = spark.read.parquet(f"{directory}/out")
    print(
        "DONE", *rows.agg(f.count("*"), numbers, f.count_distinct("fragment")).first(), flush=True
    )


def tell(query: Any) -> None:
    """Say each batch that is done."""
    last = -1
    while True:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last:
            last = progress["batchId"]
            print("BATCH", last, flush=True)
        threading.Event().wait(0.2)


def stopping(directory: str, held: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """The rows as they are; one task of each batch that is named stops once."""

    def rows(batches: Batches) -> Batches:
        from pyspark import TaskContext

        batch_id = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        for batch in batches:
            if batch_id in held:
                stop(Path(directory), batch_id)
            yield batch

    def stop(place: Path, batch_id: str) -> None:
        with contextlib.suppress(FileExistsError):
            (place / f"stopped-{batch_id}").touch(exist_ok=False)
            mark = place / f"held-{batch_id}"
            mark.with_suffix(".new").write_text(str(os.getpid()))
            mark.with_suffix(".new").rename(mark)
            parent = os.getppid()
            while not (place / f"go-{batch_id}").exists() and os.getppid() == parent:
                threading.Event().wait(0.05)

    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
