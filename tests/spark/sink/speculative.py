"""Streaming queries under speculative execution, as a program of its own.

    python speculative.py MASTER QUEUE:MODE DIRECTORY [QUEUE:MODE DIRECTORY ...]

Speculation needs executors on several hosts, and settings that a session has from its
beginning. In each query the first attempt at one task gives its first rows and then stands still
until another attempt at the same task has begun; both then run on to their end. Rows go to Parquet
files. The connection string is in the variable BUS.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any


def stands_still(marker: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes rows on; made here and travels by value, as this file is not on the executors."""

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        import threading
        from pathlib import Path

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 0 and task.attemptNumber() > 0:
            Path(marker).touch()
        for batch in batches:
            yield batch
            if task.partitionId() == 0 and task.attemptNumber() == 0:
                deadline = 1200
                while not Path(marker).exists() and deadline:
                    threading.Event().wait(0.1)
                    deadline -= 1

    return passed_on


def main(master: str, *arguments: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .appName("speculative")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.executorEnv.BUS", os.environ["BUS"])
        .config("spark.executor.memory", "1g")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.01")
        .config("spark.speculation.quantile", "0.25")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for name, directory in zip(arguments[::2], arguments[1::2], strict=True):
        queue, _, mode = name.partition(":")
        source = spark.readStream.format("servicebus").options(
            connectionStringRef="env:BUS",
            queue=queue,
            mode=mode,
            cursor="speculative",
            claimOwner="speculative",
            minPartitions="4",
            columns="fragment,sequence_number,body",
        )
        frame = source.load()
        frame = frame.mapInArrow(stands_still(f"{directory}/second"), frame.schema)
        writer = frame.writeStream.format("parquet").option("path", f"{directory}/out")
        writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
