"""What the columns of a write mean, decided once on the driver.

Owns which columns the sink accepts, of which types, where the id of a message comes from, and which
columns become application properties. An unknown column is refused rather than dropped. The plan is
sent to the executors and contains no secret.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import types

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import SinkOptions
from pyspark_servicebus.schema import (
    COLUMNS,
    GIVEN_BY_THE_BUS,
    LOCK_COLUMN,
    RAW_COLUMN,
    TARGET_COLUMN,
)

PROPERTY_TYPES: Final[dict[type[types.DataType], str]] = {
    types.StringType: "string",
    types.BooleanType: "boolean",
    types.ByteType: "byte",
    types.ShortType: "short",
    types.IntegerType: "int",
    types.LongType: "long",
    types.FloatType: "float",
    types.DoubleType: "double",
    types.BinaryType: "binary",
    types.TimestampType: "timestamp",
}
"""The AMQP type of a column that becomes an application property."""
_TAKEN: Final[dict[str, tuple[type[types.DataType], ...]]] = {
    **{name: (type(kind),) for name, kind in COLUMNS.items()},
    "body": (types.BinaryType, types.StringType),
    "time_to_live_ms": (types.LongType, types.IntegerType),
    RAW_COLUMN: (types.BinaryType,),
    LOCK_COLUMN: (types.StringType,),
    TARGET_COLUMN: (types.StringType,),
}
SEQUENCE: Final = "sequence"
KEY: Final = "key"
MESSAGE_ID: Final = "message_id"


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """How rows become messages."""

    columns: frozenset[str]
    """Columns with the same meaning as in the source."""
    properties: tuple[tuple[str, str], ...]
    """Columns that become application properties, with the AMQP type of each."""
    identity: str | None
    """The source of ids that are the same whenever a row is written; None if not needed."""
    key: tuple[str, ...]

    @property
    def names_targets(self) -> bool:
        """Whether each row names its own target."""
        return TARGET_COLUMN in self.columns


def sink_plan(schema: types.StructType, options: SinkOptions) -> SinkPlan:
    """The plan for these columns; OptionsError lists everything that is wrong with them."""
    complaints: list[str] = []
    columns: set[str] = set()
    properties: list[tuple[str, str]] = []
    key = options.dedup_key
    for field in schema.fields:
        name, kind = field.name, type(field.dataType)
        if name in _TAKEN:
            columns.add(name)
            if name not in GIVEN_BY_THE_BUS:
                complaints += _type_complaints(name, field.dataType)
        elif options.extra_columns_are_properties:
            if kind not in PROPERTY_TYPES:
                complaints.append(
                    f"{name}: a property cannot be a {field.dataType.simpleString()}; cast it."
                )
            properties.append((name, PROPERTY_TYPES.get(kind, "")))
        elif name not in key:
            complaints.append(
                f"{name}: messages have no such column; drop it, or write "
                "extraColumns=properties to make it an application property."
            )
    names = {field.name for field in schema.fields}
    complaints += [f"dedupKey: there is no column '{name}'." for name in key if name not in names]
    identity = _identity(options, names)
    if options.deliver == "dedup" and identity is None:
        complaints.append(
            "deliver: dedup needs ids that stay the same on a retry; name columns with dedupKey, "
            "or write the columns sequence_number or message_id."
        )
    if not columns & {"body", RAW_COLUMN}:
        complaints.append("body: a message needs a column 'body' (or raw_amqp).")
    if complaints:
        raise OptionsError("the columns cannot be written:", complaints)
    return SinkPlan(frozenset(columns), tuple(properties), identity, key)


def _type_complaints(name: str, kind: types.DataType) -> list[str]:
    allowed = _TAKEN[name]
    fits = isinstance(kind, allowed)
    if isinstance(kind, types.MapType):
        fits = fits and {type(kind.keyType), type(kind.valueType)} == {types.StringType}
    if fits:
        return []
    wanted = " or ".join(
        "map<string,string>" if a is types.MapType else a().simpleString() for a in allowed
    )
    return [f"{name}: it is a {kind.simpleString()}; {wanted} is needed."]


def _identity(options: SinkOptions, names: set[str]) -> str | None:
    if options.deliver != "dedup":
        return None
    if options.dedup_key:
        return MESSAGE_ID if options.dedup_key == ("message_id",) else KEY
    if "sequence_number" in names:
        return SEQUENCE
    return MESSAGE_ID if "message_id" in names else None
