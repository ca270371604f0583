"""Encoded messages to record batches, in the executors.

Owns the way from lists of values, as `partibus.client.message_columns` gives them, to the Arrow
columns that were asked for. What no column needs is not decoded: a query over headers alone never
touches a body.
"""

from collections.abc import Sequence

import pyarrow as pa

from partibus.client.message_columns import MessageColumns
from pyspark_servicebus.schema import arrow_schema

_MAPS = ("application_properties", "application_property_types")


class Decoder:
    """Makes record batches of certain columns."""

    def __init__(self, columns: Sequence[str], entity: str) -> None:
        self.schema = arrow_schema(list(columns))
        self._names = frozenset(columns)
        self._entity = entity

    def batch(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """Messages as the bus gave them, as one record batch."""
        return self.table(read.column(1).to_pylist())

    def table(self, messages: Sequence[bytes]) -> pa.RecordBatch:
        """Encoded messages as one record batch."""
        columns = MessageColumns(self._names)
        for message in messages:
            columns.add(message)
        arrays = [self._array(columns, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, columns: MessageColumns, field: pa.Field) -> pa.Array:
        if field.name == "entity":
            return pa.repeat(self._entity, len(columns)).cast(field.type)
        if field.name in _MAPS:
            texts = field.name == "application_properties"
            values = columns.property_texts if texts else columns.property_types
            keys = pa.array(columns.property_names, pa.string())
            ends = pa.array(columns.property_ends, pa.int32())
            return pa.MapArray.from_arrays(ends, keys, pa.array(values, pa.string()))
        return pa.array(columns.lists[field.name], field.type)
