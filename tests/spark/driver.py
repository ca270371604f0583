"""A streaming query as a program of its own, which tests can kill.

    python driver.py MASTER QUEUE DIRECTORY MESSAGES_PER_TRIGGER

Claims the messages of a queue and writes their numbers to Parquet files, until nothing waits. The
connection string is in the variable BUS. Says on standard output: the process of the JVM, the
number of each batch that is done, and when it has ended.
"""

import os
import sys
import threading


def main(master: str, queue: str, directory: str, per_trigger: str) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(master)
        .appName("killed")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .config("spark.executorEnv.BUS", os.environ["BUS"])
        .config("spark.executor.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    print("JVM", spark.sparkContext._gateway.proc.pid, flush=True)
    source = spark.readStream.format("servicebus").options(
        connectionStringRef="env:BUS",
        queue=queue,
        mode="claim",
        claimOwner="killed",
        claimDuration="10s",
        maxMessagesPerTrigger=per_trigger,
        minPartitions="4",
        columns="fragment,sequence_number,body",
    )
    query = (
        source.load()
        .writeStream.format("parquet")
        .option("path", f"{directory}/out")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    threading.Thread(target=tell, args=(query,), daemon=True).start()
    query.awaitTermination()
    print("DONE", flush=True)


def tell(query: "object") -> None:
    """Say each batch that is done."""
    last = -1
    while True:
        progress = query.lastProgress  # type: ignore[attr-defined]
        if progress is not None and progress["batchId"] > last:
            last = progress["batchId"]
            print("BATCH", last, flush=True)
        threading.Event().wait(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
