"""A job for spark-submit that has the connector from nowhere but from what was submitted with it.

    spark-submit ... shipped.py CONNECTION_FILE QUEUE TARGET DIRECTORY

Writes rows to a queue, reads them, and moves them to another by a stream that claims. Says on
standard output where the driver's program has the connector from, and what was counted.
"""

import sys


def main(connection: str, queue: str, target: str, directory: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    bus = {"connectionStringRef": f"file:{connection}"}
    rows = spark.range(40, numPartitions=2).selectExpr("cast(id as string) as body")
    rows.write.format("servicebus").options(**bus, queue=queue).mode("append").save()
    found = spark.read.format("servicebus").options(**bus, queue=queue).load().count()
    source = spark.readStream.format("servicebus").options(**bus, queue=queue, mode="claim")
    writer = source.option("claimOwner", "job").load().select("body").writeStream
    writer = writer.format("servicebus").options(**bus, queue=target)
    writer = writer.option("checkpointLocation", directory).trigger(availableNow=True)
    writer.start().awaitTermination()
    import pyspark_servicebus

    print("FROM", pyspark_servicebus.__file__)
    print("READ", found, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
