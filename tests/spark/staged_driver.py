"""A query from queue to queue as a program of its own, which tests can kill.

    python staged_driver.py MASTER QUEUE DIRECTORY MESSAGES_PER_TRIGGER

Claims the messages of a queue and stages them for the queue `goal`, until nothing waits. The
connection string is in the variable BUS. Says what driver.py says.
"""

import os
import sys
import threading


def main(master: str, queue: str, directory: str, per_trigger: str, *_: str) -> None:
    from driver import tell
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
    bus = {"connectionStringRef": "env:BUS"}
    source = spark.readStream.format("servicebus").options(
        **bus,
        queue=queue,
        mode="claim",
        claimOwner="killed",
        claimDuration="10s",
        maxMessagesPerTrigger=per_trigger,
        minPartitions="4",
        columns="body",
    )
    query = (
        source.load()
        .writeStream.format("servicebus")
        .options(**bus, queue="goal", deliver="staged", writer="killed", batchBytes="20k")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    threading.Thread(target=tell, args=(query,), daemon=True).start()
    query.awaitTermination()
    print("DONE", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
