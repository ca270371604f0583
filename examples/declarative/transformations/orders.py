"""Orders from a queue: kept in a streaming table, added up, and sent on as bills.

The connection string is in the variable BUS. The table reads along behind a cursor, so whoever
receives the orders is not disturbed; bills are sent exactly once.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
BUS = {"connectionStringRef": "env:BUS"}


@dp.table
def orders() -> DataFrame:
    """Every order that passes the queue."""
    source = {**BUS, "queue": "orders", "mode": "cursor", "cursor": "declarative"}
    messages = spark.readStream.format("servicebus").options(**source).load()
    order = f.from_json(f.col("body").cast("string"), "order bigint, amount bigint")
    return messages.select("sequence_number", "enqueued_time", order.alias("o")).select(
        "sequence_number", "enqueued_time", "o.*"
    )


@dp.materialized_view
def totals() -> DataFrame:
    """What was ordered, by amount."""
    return spark.read.table("orders").groupBy("amount").agg(f.count("*").alias("orders"))


dp.create_sink(
    "bills",
    "servicebus",
    {**BUS, "queue": "bills", "deliver": "staged", "writer": "declarative"},
)


@dp.append_flow(target="bills")
def large_bills() -> DataFrame:
    """A bill for every order that costs something."""
    found = spark.readStream.table("orders").where("amount > 0")
    return found.select(
        f.to_json(f.struct("order", "amount")).alias("body"), f.lit("bill").alias("subject")
    )
