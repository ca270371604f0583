"""Rows to messages and messages to rows, the way of the bus between them."""

import datetime
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from partibus.amqp.codec import types as amqp
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_properties
from partibus.client.message import OutgoingMessage, encode_body
from partibus.fragment.message import Held
from partibus.message.envelope import to_peeked, to_stored
from pyspark_servicebus.options import sink_options
from pyspark_servicebus.schema import COLUMNS, RAW_COLUMN, arrow_schema, spark_schema
from pyspark_servicebus.sink.encode import BadRow, RowEncoder
from pyspark_servicebus.sink.plan import sink_plan
from pyspark_servicebus.source.decode import Decoder
from unit.pyspark_servicebus.ddl import schema_of

QUEUE = {
    "connectionString": "Endpoint=sb://bus.test;SharedAccessKeyName=p;SharedAccessKey=k",
    "queue": "q",
}
ENQUEUED_MS = 1_700_000_000_000
NUMBER = 17
WRITTEN = (
    "body",
    "body_type",
    "message_id",
    "session_id",
    "subject",
    "content_type",
    "correlation_id",
    "reply_to",
    "reply_to_session_id",
    "to",
    "time_to_live_ms",
    "application_properties",
    "application_property_types",
)


def encoder(schema: StructType | None = None, **options: str) -> RowEncoder:
    columns = schema if schema is not None else spark_schema(list(COLUMNS))
    return RowEncoder(sink_plan(columns, sink_options({**QUEUE, **options})))


def encoded(*rows: dict[str, Any], **options: str) -> list[bytes | BadRow]:
    full = [{**dict.fromkeys(COLUMNS), **row} for row in rows]
    batch = pa.RecordBatch.from_pylist(full, arrow_schema(list(COLUMNS)))
    return [message for _, message in encoder(**options).rows(batch)]


def through_the_bus(payload: bytes, fragment: int = 0, expires_ms: int = 0) -> bytes:
    """What a read gives of a message that was sent."""
    stored = to_stored(payload)
    held = Held(NUMBER, 0, len(stored.body), ENQUEUED_MS, expires_ms, 2, None)
    return to_peeked(stored.body, held, fragment << 48 | NUMBER)


def decoded(*messages: bytes, columns: tuple[str, ...] = tuple(COLUMNS)) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Decoder(columns, "q").table(list(messages)).to_pylist()
    return rows


TEXTS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=60)
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
ROWS = st.fixed_dictionaries(
    {
        "body": st.binary(max_size=600),
        "body_type": st.just("data"),
        "message_id": IDS,
        "session_id": st.none() | IDS,
        "subject": TEXTS,
        "content_type": st.none() | st.text(st.characters(codec="ascii"), max_size=40),
        "correlation_id": st.none() | IDS,
        "reply_to": TEXTS,
        "reply_to_session_id": st.none() | IDS,
        "to": TEXTS,
        "time_to_live_ms": st.none() | st.integers(0, (1 << 32) - 2),
    }
)


@settings(deadline=None, max_examples=200)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_written_is_read(rows: list[dict[str, Any]]) -> None:
    messages = encoded(*rows)
    assert all(isinstance(message, bytes) for message in messages)
    read = decoded(*(through_the_bus(m) for m in messages if isinstance(m, bytes)))
    for row, again in zip(rows, read, strict=True):
        assert {name: again[name] for name in row} == row


def test_what_the_bus_writes() -> None:
    (payload,) = encoded({"body": b"x", "message_id": "m", "time_to_live_ms": 5000})
    assert isinstance(payload, bytes)
    (row,) = decoded(through_the_bus(payload, fragment=3, expires_ms=ENQUEUED_MS + 5000))
    moment = datetime.datetime.fromtimestamp(ENQUEUED_MS / 1000, datetime.UTC)
    assert row["sequence_number"] == 3 << 48 | NUMBER
    assert (row["fragment"], row["delivery_count"], row["state"]) == (3, 2, "active")
    assert row["enqueued_time"] == moment
    assert row["expires_at"] == moment + datetime.timedelta(seconds=5)
    assert (row["entity"], row["scheduled_enqueue_time"]) == ("q", None)


PROPERTIES = {
    "text": ("hello", "string"),
    "none": (None, "null"),
    "flag": (True, "boolean"),
    "long": (-(1 << 62), "long"),
    "int": (amqp.Int(-7), "int"),
    "ulong": (amqp.ULong(1 << 63), "ulong"),
    "double": (0.1, "double"),
    "float": (amqp.Float(0.5), "float"),
    "id": (uuid.UUID(int=5), "uuid"),
    "raw": (b"\x00\xff", "binary"),
    "time": (amqp.Timestamp(1_600_000_000_123), "timestamp"),
    "symbol": (amqp.Symbol("word"), "symbol"),
    "char": (amqp.Char("Ä"), "char"),
}


def test_properties_keep_their_types() -> None:
    values: dict[str, object] = {name: value for name, (value, _) in PROPERTIES.items()}
    payload = OutgoingMessage(body=b"", properties=values).encode()
    plain = OutgoingMessage(body=b"").encode()
    one, two, three = decoded(*(through_the_bus(p) for p in (payload, plain, payload)))
    assert dict(one["application_property_types"]) == {n: t for n, (_, t) in PROPERTIES.items()}
    assert (two["application_properties"], two["application_property_types"]) == ([], [])
    assert one["application_properties"] == three["application_properties"]
    (again,) = encoded(
        {
            "body": b"",
            "message_id": one["message_id"],
            "application_properties": one["application_properties"],
            "application_property_types": one["application_property_types"],
        }
    )
    assert isinstance(again, bytes)
    sent = OutgoingMessage(body=b"", message_id=one["message_id"], properties=values).encode()
    assert again == sent


@pytest.mark.parametrize(
    ("value", "body_type"), [({"a": [1, None]}, "value"), ([1, "two", b"3"], "sequence")]
)
def test_other_bodies_go_round_encoded(value: object, body_type: Any) -> None:
    payload = OutgoingMessage(body=value, body_type=body_type, message_id="m").encode()
    (row,) = decoded(through_the_bus(payload))
    assert (row["body"], row["body_type"]) == (encode_value(value), body_type)
    (again,) = encoded({name: row[name] for name in WRITTEN})
    assert again == payload


def test_data_in_several_sections_is_one_body() -> None:
    head = encode_properties(MessageProperties(message_id="m"))
    payload = head + encode_body(b"a" * 300, "data") + encode_body(b"b", "data")
    (row,) = decoded(through_the_bus(payload))
    assert row["body"] == b"a" * 300 + b"b"


def test_ids_of_other_types_become_text() -> None:
    for value, text in ((uuid.UUID(int=7), str(uuid.UUID(int=7))), (amqp.ULong(9), "9")):
        payload = encode_properties(MessageProperties(message_id=value)) + encode_body(b"", "data")
        (row,) = decoded(through_the_bus(payload))
        assert row["message_id"] == text


def test_only_what_is_asked_for_is_read() -> None:
    (payload,) = encoded({"body": b"x", "message_id": "m", "subject": "s"})
    assert isinstance(payload, bytes)
    message = through_the_bus(payload)
    assert decoded(message, columns=("subject", "entity")) == [{"subject": "s", "entity": "q"}]
    assert decoded(message, columns=(RAW_COLUMN,)) == [{RAW_COLUMN: message}]
    assert decoded(columns=("body", "application_properties")) == []


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"body_type": "xml"}, "body_type is 'xml'"),
        ({"time_to_live_ms": -1}, "time_to_live_ms is -1"),
        ({"body": b"\xc0", "body_type": "value"}, "the value is truncated"),
        ({"body": b"\x40\x40", "body_type": "value"}, "body holds more than one value"),
        (
            {
                "application_properties": [("n", "many")],
                "application_property_types": [("n", "int")],
            },
            "many",
        ),
        (
            {
                "application_properties": [("n", "1")],
                "application_property_types": [("n", "odd")],
            },
            "odd",
        ),
    ],
)
def test_a_row_that_is_no_message_says_why(row: dict[str, Any], reason: str) -> None:
    good = {"body": b"x", "message_id": "m"}
    bad, fine = encoded({"body": b"x", **row}, good)
    assert isinstance(bad, BadRow)
    assert reason in str(bad)
    assert isinstance(fine, bytes)


def test_raw_messages_go_as_they_came() -> None:
    payload = OutgoingMessage(
        body=[1, 2], body_type="sequence", message_id="m", properties={"n": amqp.UShort(3)}
    ).encode()
    schema = schema_of(f"{RAW_COLUMN} binary, target string")
    batch = pa.RecordBatch.from_pydict({RAW_COLUMN: [through_the_bus(payload)], "target": ["t"]})
    [(target, again)] = encoder(schema).rows(batch)
    assert (target, again) == ("t", payload)


def test_further_columns_as_properties() -> None:
    schema = schema_of("body string, n int, at timestamp, f float, missing string")
    moment = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array(["hi"]),
            "n": pa.array([4], pa.int32()),
            "at": pa.array([moment], pa.timestamp("us", tz="UTC")),
            "f": pa.array([0.5], pa.float32()),
            "missing": pa.array([None], pa.string()),
        }
    )
    [(_, payload)] = encoder(schema, extraColumns="properties").rows(batch)
    assert isinstance(payload, bytes)
    (row,) = decoded(through_the_bus(payload))
    assert row["body"] == b"hi"
    assert dict(row["application_property_types"]) == {
        "n": "int",
        "at": "timestamp",
        "f": "float",
    }
    assert dict(row["application_properties"])["at"].startswith("2026-01-31T12:00:00")


# --- ids ------------------------------------------------------------------------------------------


def ids(*rows: dict[str, Any], **options: str) -> list[str]:
    messages = encoded(*rows, deliver="dedup", **options)
    assert all(isinstance(message, bytes) for message in messages)
    return [row["message_id"] for row in decoded(*map(through_the_bus, messages))]  # type: ignore[arg-type]


def test_ids_are_the_same_at_every_try_and_differ_by_row() -> None:
    rows = [{"body": b"x", "sequence_number": n, "entity": e} for n in (1, 2) for e in ("a", "b")]
    first = ids(*rows)
    assert first == ids(*rows)
    assert len(set(first)) == 4


def test_rows_of_one_message_have_ids_of_their_own() -> None:
    rows = [{"body": b"x", "sequence_number": 1}] * 3
    assert len(set(ids(*rows))) == 3


def test_a_key_is_read_column_by_column() -> None:
    key = {"dedupKey": "subject,to"}
    rows = [{"body": b"", "subject": "ab", "to": "c"}, {"body": b"", "subject": "a", "to": "bc"}]
    one, two = ids(*rows, **key)
    assert one != two
    assert ids({"body": b"other", "subject": "ab", "to": "c"}, **key) == [one]
    (bad,) = encoded({"body": b"", "subject": "a"}, deliver="dedup", **key)
    assert isinstance(bad, BadRow)


def test_ids_that_are_the_key_stay() -> None:
    assert ids({"body": b"", "message_id": "mine"}, dedupKey="message_id") == ["mine"]
    (bad,) = encoded({"body": b""}, deliver="dedup", dedupKey="message_id")
    assert isinstance(bad, BadRow)
