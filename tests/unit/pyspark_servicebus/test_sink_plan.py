"""What the columns of a write mean, and which cannot be written."""

import pytest
from pyspark.sql.types import StructType

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import sink_options
from pyspark_servicebus.schema import COLUMNS, spark_schema
from pyspark_servicebus.sink.plan import KEY, MESSAGE_ID, SEQUENCE, SinkPlan, sink_plan
from unit.pyspark_servicebus.ddl import schema_of

QUEUE = {
    "connectionString": "Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey=k",
    "queue": "q",
}


def plan(schema: str | StructType, **given: str) -> SinkPlan:
    columns = schema_of(schema) if isinstance(schema, str) else schema
    return sink_plan(columns, sink_options({**QUEUE, **given}))


def test_what_the_source_gives_the_sink_takes() -> None:
    made = plan(spark_schema(list(COLUMNS)))
    assert made.columns == set(COLUMNS)
    assert (made.properties, made.identity, made.names_targets) == ((), None, False)


def test_further_columns_become_properties_when_asked() -> None:
    schema = "body string, a int, b timestamp, c binary, target string"
    made = plan(schema, extraColumns="properties")
    assert made.properties == (("a", "int"), ("b", "timestamp"), ("c", "binary"))
    assert made.names_targets


@pytest.mark.parametrize(
    ("schema", "options", "identity"),
    [
        ("body string, message_id string, a int", {"dedupKey": "a,message_id"}, KEY),
        ("body string, message_id string", {"dedupKey": "message_id"}, MESSAGE_ID),
        ("body string, message_id string, sequence_number bigint", {}, SEQUENCE),
        ("body string, message_id string", {}, MESSAGE_ID),
    ],
)
def test_where_ids_come_from(schema: str, options: dict[str, str], identity: str) -> None:
    assert plan(schema, deliver="dedup", **options).identity == identity
    assert plan(schema, **options).identity is None


@pytest.mark.parametrize(
    ("schema", "options", "complaint"),
    [
        ("subject string", {}, "body: a message needs"),
        ("body int", {}, "body: it is a int; binary or string is needed"),
        ("body string, subject int", {}, "subject: it is a int; string is needed"),
        ("body string, amount int", {}, "amount: messages have no such column"),
        (
            "body string, amount decimal",
            {"extraColumns": "properties"},
            "amount: a property cannot be a decimal(9,2); cast it",
        ),
        (
            "body string, application_properties numbers",
            {},
            "application_properties: it is a map<string,int>; map<string,string> is needed",
        ),
        ("body string", {"deliver": "dedup"}, "deliver: dedup needs ids"),
        ("body string", {"dedupKey": "order_id"}, "dedupKey: there is no column 'order_id'"),
    ],
)
def test_columns_that_cannot_be_written(
    schema: str, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(OptionsError, match="the columns cannot be written") as caught:
        plan(schema, **options)
    assert complaint in str(caught.value)
