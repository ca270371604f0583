"""The columns of messages in Spark: what the source returns and the sink accepts.

Owns names and types, for Spark and for Arrow, and which part of a message each column needs. It
must never read a message itself.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT: Final = StringType()
_TEXTS: Final = MapType(StringType(), StringType(), valueContainsNull=True)

COLUMNS: Final[dict[str, DataType]] = {
    "body": BinaryType(),
    "body_type": _TEXT,
    "message_id": _TEXT,
    "session_id": _TEXT,
    "partition_key": _TEXT,
    "subject": _TEXT,
    "content_type": _TEXT,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "reply_to_session_id": _TEXT,
    "to": _TEXT,
    "time_to_live_ms": LongType(),
    "scheduled_enqueue_time": TimestampType(),
    "enqueued_time": TimestampType(),
    "expires_at": TimestampType(),
    "sequence_number": LongType(),
    "enqueued_sequence_number": LongType(),
    "fragment": IntegerType(),
    "delivery_count": IntegerType(),
    "state": _TEXT,
    "dead_letter_source": _TEXT,
    "dead_letter_reason": _TEXT,
    "dead_letter_description": _TEXT,
    "application_properties": _TEXTS,
    "application_property_types": _TEXTS,
    "entity": _TEXT,
}
"""In the order in which they are given."""
RAW_COLUMN: Final = "raw_amqp"
LOCK_COLUMN: Final = "lock_token"
"""Only with mode=peeklock."""
_FURTHER: Final[dict[str, DataType]] = {RAW_COLUMN: BinaryType(), LOCK_COLUMN: _TEXT}

TARGET_COLUMN: Final = "target"
"""What the sink accepts besides the columns of the source: where a row goes."""
GIVEN_BY_THE_BUS: Final = frozenset(
    (
        "enqueued_time",
        "expires_at",
        "sequence_number",
        "enqueued_sequence_number",
        "fragment",
        "delivery_count",
        "state",
        "dead_letter_source",
        "dead_letter_reason",
        "dead_letter_description",
        "entity",
        LOCK_COLUMN,
    )
)
"""Read from a message, and ignored by the sink: the bus sets them itself."""


def spark_schema(names: list[str]) -> StructType:
    """The schema of these columns, for Spark."""
    types = {**COLUMNS, **_FURTHER}
    return StructType([StructField(name, types[name], True) for name in names])


def arrow_of(ddl: str) -> "pa.Schema":
    """The columns of a table for Arrow, from what Spark gets: `path string, rows bigint`."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    parts = [part.split() for part in ddl.split(", ")]
    return pa.schema([(name, kinds[kind]) for name, kind in parts])


def arrow_schema(names: list[str]) -> "pa.Schema":
    """The columns of messages for Arrow, which is imported here: options are read without it."""
    import pyarrow as pa

    arrow = {
        BinaryType: pa.binary(),
        StringType: pa.string(),
        LongType: pa.int64(),
        IntegerType: pa.int32(),
        TimestampType: pa.timestamp("us", tz="UTC"),
        MapType: pa.map_(pa.string(), pa.string()),
    }
    types = {**COLUMNS, **_FURTHER}
    return pa.schema([(name, arrow[type(types[name])]) for name in names])
