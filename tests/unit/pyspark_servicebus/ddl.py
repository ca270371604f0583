"""Schemas from words, without a Spark session, which PySpark's own parser needs."""

from pyspark.sql.types import (
    BinaryType,
    DataType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "timestamp": TimestampType(),
    "decimal": DecimalType(9, 2),
    "numbers": MapType(StringType(), IntegerType()),
}


def schema_of(text: str) -> StructType:
    """The schema of `name type, name type`."""
    schema = StructType()
    for column in text.split(","):
        name, kind = column.split()
        schema.add(name, _TYPES[kind])
    return schema
