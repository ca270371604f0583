"""A short Spark program whose classes become the archive of quick_java.py; it is no test.

    python java_training.py

Does a little of what the tests do: tables in Parquet, SQL, a function of Python over Arrow, a
streaming query with a checkpoint, and Spark's REST API. A class that it leaves out is loaded as
without the archive.
"""

import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.port", "0")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as place:
        spark.range(10).selectExpr("id", "id % 3 as part").write.parquet(f"{place}/in")
        rows = spark.read.parquet(f"{place}/in")
        rows.createOrReplaceTempView("numbers")
        spark.sql("select part, count(*), max(id) from numbers group by part order by 1").collect()
        rows.mapInArrow(unchanged, rows.schema).collect()
        stream(spark, place)
    ask(spark)
    end(spark)


def unchanged(batches: Iterable[Any]) -> Iterable[Any]:
    """The rows as they are."""
    yield from batches


def stream(spark: SparkSession, place: str) -> None:
    """Files into files, until all are read."""
    numbers: DataFrame = spark.readStream.schema("id long, part long").parquet(f"{place}/in")
    writer = numbers.writeStream.format("parquet").option("path", f"{place}/out")
    started = writer.option("checkpointLocation", f"{place}/checkpoint")
    started.trigger(availableNow=True).start().awaitTermination()


def ask(spark: SparkSession) -> None:
    """The REST API, which the tests that kill executors ask."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    for path in ("executors", "stages?status=complete"):
        urllib.request.urlopen(f"{address}/{path}", timeout=30).close()  # noqa: S310 - loopback


def end(spark: SparkSession) -> None:
    """Returns when the JVM is gone, which writes the archive last."""
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    main()
