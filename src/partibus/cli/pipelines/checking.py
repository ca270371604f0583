"""A Spark session for the verbs that only check: it leaves no records and no output.

Owns where Spark's own output goes meanwhile. Called by `partibus pipeline check` and by `--check`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_servicebus.pipelines.run.execution import Execution


@contextmanager
def session_for_check(running: "Execution") -> "Iterator[SparkSession]":
    """A session for the duration of the block."""
    from pyspark_servicebus.pipelines.run.session import spark_session
    from pyspark_servicebus.pipelines.transform import own_session

    conf = running.spark_conf()
    spark = spark_session("partibus check", running.master, conf, running.log_file("check"))
    try:
        yield own_session(spark)
    finally:
        spark.stop()
