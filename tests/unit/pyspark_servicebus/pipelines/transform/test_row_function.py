"""Functions of rows, as workers call them."""

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_servicebus.pipelines.transform.row_function import (
    OUT_COLUMNS,
    RowFailed,
    RowFunction,
    RowStep,
    arrow_out_schema,
    batch_of,
    out_schema,
    rows_of,
)

IN = [
    {
        "body": f"{number}".encode(),
        "entity": "orders",
        "sequence_number": number,
        "application_properties": {"n": str(number)},
    }
    for number in range(3)
]
SCHEMA = arrow_out_schema()


def run(function: RowFunction, failures: str | None = None) -> list[dict[str, Any]]:
    batches = RowStep(function, "mine:f", failures, SCHEMA)(iter([batch_of(IN, SCHEMA)]))
    return [row for batch in batches for row in rows_of(batch)]


def test_one_none_and_many() -> None:
    def function(row: dict[str, Any]) -> Any:
        number = int(row["body"])
        row["body"] = f"<{number}>"
        return [None, row, [row, {"body": b"more"}]][number]

    found = run(function)
    assert [row["body"] for row in found] == [b"<1>", b"<2>", b"more"]
    assert found[0]["application_properties"] == {"n": "1"}
    assert found[2]["sequence_number"] is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("text", "it returned a str; expected a row, rows or None"),
        (7, "it returned a int"),
        (["x"], "it returned a str among its rows"),
        ({"bdy": b""}, "a column 'bdy' that messages do not have"),
        ({"subject": "x"}, "a body that is a NoneType"),
    ],
)
def test_what_a_function_may_not_return(given: Any, words: str) -> None:
    with pytest.raises(RowFailed, match=rf"mine:f failed for the message orders 0: .*{words}"):
        run(lambda row: given)


def test_failures_go_to_their_queue_as_they_came() -> None:
    def function(row: dict[str, Any]) -> Any:
        row["application_properties"]["n"] = "changed"
        row["body"] = b"changed"
        if row["sequence_number"] == 1:
            raise ValueError("one")
        return row

    found = run(function, "failures")
    assert [row["target"] for row in found] == [None, "failures", None]
    assert found[1]["body"] == b"1"
    assert found[1]["application_properties"]["n"] == "1"
    assert found[1]["application_properties"]["DeadLetterErrorDescription"] == "ValueError: one"


def test_the_two_schemas_agree() -> None:
    assert tuple(out_schema().names) == tuple(arrow_out_schema().names) == OUT_COLUMNS
    assert out_schema().fieldNames() == [field.name for field in out_schema().fields]


def test_columns_that_other_steps_have_added_are_passed_on() -> None:
    given = StructType([StructField("body", StringType()), StructField("order", LongType())])
    schema = arrow_out_schema(given)
    assert out_schema(given).names == [*OUT_COLUMNS, "order"] == schema.names
    batch = batch_of([{**IN[0], "order": 7}, {**IN[1], "order": 8}], schema)

    def function(row: dict[str, Any]) -> Any:
        if row["order"] == 8:
            raise ValueError
        return row

    step = RowStep(function, "mine:f", "failures", schema)
    first, second = [row for made in step(iter([batch])) for row in rows_of(made)]
    assert (first["order"], first["body"]) == (7, b"0")
    assert (second["target"], second["body"]) == ("failures", b"1")
