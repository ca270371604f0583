"""Decoding messages of the bus to record batches, in the executors.

Owns the conversion to the requested Arrow columns. The bus returns numbers, heads and bodies
separately: numbers and bodies are used unchanged, heads are decoded by
`partibus.client.head_columns`, and constant values are made once. Whole messages are requested only
for their own column. What no column needs is neither sent nor decoded.
"""

import itertools
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.section_walk import parse_sections
from partibus.client.head_columns import HeadColumns
from partibus.client.message_columns import MessageColumns, read_body, state_text
from partibus.domain.sequence import fragment_of
from pyspark_servicebus.errors import UnreadableMessage
from pyspark_servicebus.schema import RAW_COLUMN, arrow_schema

_MAPS: Final = ("application_properties", "application_property_types")
_BODIES: Final = ("body", "body_type")
_CONSTANT_ROWS: Final = 16_384
_US_PER_MS: Final = 1000


class Decoder:
    """Makes record batches of certain columns."""

    def __init__(self, columns: Sequence[str], entity: str) -> None:
        self.schema = arrow_schema(list(columns))
        self._names = frozenset(columns)
        self._entity = entity
        self._constants: dict[tuple[str, object], pa.Array] = {}

    @property
    def form(self) -> str:
        """The form in which messages are requested from the bus."""
        if RAW_COLUMN in self._names:
            return "message"
        return "heads" if self._names.isdisjoint(_BODIES) else "parts"

    def batch(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """Messages of the bus as one record batch."""
        try:
            return self._decoded(read)
        except (pa.ArrowInvalid, DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(read, error) from error

    def _decoded(self, read: pa.RecordBatch) -> pa.RecordBatch:
        if "message" in read.schema.names:
            return self.table(read.column("message").to_pylist())
        return self._from_parts(read)

    # --- whole messages ---------------------------------------------------------------------

    def table(self, messages: Sequence[bytes], hidden: str | None = None) -> pa.RecordBatch:
        """Encoded messages as one record batch, without the property with this name."""
        columns = MessageColumns(self._names)
        for message in messages:
            columns.add(message)
        if hidden is not None and hidden in columns.property_names:
            hide_property(columns, hidden)
        arrays = [self._array(columns, field) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, columns: MessageColumns, field: pa.Field) -> pa.Array:
        if field.name == "entity":
            return self._constant(field, self._entity, len(columns))
        if field.name in _MAPS:
            return _map(field.name, columns)
        return pa.array(columns.lists[field.name], field.type)

    # --- parts ------------------------------------------------------------------------------

    def _from_parts(self, read: pa.RecordBatch) -> pa.RecordBatch:
        heads = HeadColumns(self._names)
        for head in read.column("head").to_pylist():
            heads.add(head)
        arrays = [self._column(field, read, heads) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(self, field: pa.Field, read: pa.RecordBatch, heads: HeadColumns) -> pa.Array:
        name = field.name
        if name in heads.texts:
            return pa.array(heads.texts[name], field.type)
        if name in _MAPS:
            return _map(name, heads)
        if name == "scheduled_enqueue_time":
            return pa.array(heads.scheduled_us, field.type)
        if name in _GIVEN:
            return read.column(name)
        if name in _BODIES:
            return self._body(field, read)
        return self._fact(field, read)

    def _fact(self, field: pa.Field, read: pa.RecordBatch) -> pa.Array:
        """What the bus returns as numbers."""
        name, count = field.name, read.num_rows
        if name == "entity":
            return self._constant(field, self._entity, count)
        if name == "fragment":
            number = fragment_of(read.column("sequence_number")[0].as_py())
            return self._constant(field, number, count)
        if name == "enqueued_time":
            return _moments(read.column("enqueued_ms"), field.type)
        if name == "state":
            return self._states(field, read.column("state"))
        lives = read.column("ttl_ms")
        if pc.max(lives).as_py() < 0:
            return self._constant(field, None, count)
        known = pc.if_else(pc.less(lives, 0), None, lives)
        if name == "time_to_live_ms":
            return known
        return _moments(pc.add(read.column("enqueued_ms"), known), field.type)

    def _states(self, field: pa.Field, states: pa.Array) -> pa.Array:
        if pc.max(states).as_py() == 0 == pc.min(states).as_py():
            return self._constant(field, state_text(0), len(states))
        return pa.array([state_text(state) for state in states.to_pylist()], field.type)

    def _body(self, field: pa.Field, read: pa.RecordBatch) -> pa.Array:
        """Bodies with one data section are used unchanged; others are decoded one by one."""
        kinds = read.column("body_kind")
        wants_bytes = field.name == "body"
        if pc.max(kinds).as_py() == 0:
            if wants_bytes:
                return read.column("body")
            return self._constant(field, "data", read.num_rows)
        values: list[object] = []
        bodies = read.column("body").to_pylist()
        for kind, body in zip(kinds.to_pylist(), bodies, strict=True):
            found = read_body(body, parse_sections(body)) if kind else (body, "data")
            values.append(found[0 if wants_bytes else 1])
        return pa.array(values, field.type)

    def _constant(self, field: pa.Field, value: object, count: int) -> pa.Array:
        """The same value in every row, made once."""
        known = self._constants.get((field.name, value))
        if known is None or len(known) < count:
            rows = max(count, _CONSTANT_ROWS)
            known = (
                pa.nulls(rows, field.type)
                if value is None
                else pa.repeat(pa.scalar(value, field.type), rows)
            )
            self._constants[field.name, value] = known
        return known[:count]

    # --- what cannot be read ----------------------------------------------------------------

    def _unreadable(self, read: pa.RecordBatch, error: Exception) -> UnreadableMessage:
        """Find the unreadable message: each is tried alone."""
        for row in range(read.num_rows):
            one = read.slice(row, 1)
            try:
                self._decoded(one)
            except (pa.ArrowInvalid, DecodeError, UnicodeDecodeError) as cause:
                number = one.column("sequence_number")[0].as_py()
                return UnreadableMessage(self._entity, number, str(cause))
        return UnreadableMessage(self._entity, 0, str(error))


_GIVEN: Final = ("sequence_number", "enqueued_sequence_number", "delivery_count")


def _moments(times_ms: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.multiply(times_ms, _US_PER_MS).view(kind)


def _map(name: str, columns: HeadColumns | MessageColumns) -> pa.Array:
    is_texts = name == "application_properties"
    values = columns.property_texts if is_texts else columns.property_types
    keys = pa.array(columns.property_names, pa.string())
    ends = pa.array(columns.property_ends, pa.int32())
    return pa.MapArray.from_arrays(ends, keys, pa.array(values, pa.string()))


def hide_property(columns: MessageColumns, hidden: str) -> None:
    """Take a property out of all messages."""
    kept = [name != hidden for name in columns.property_names]
    ends, count = [0], 0
    for first, last in itertools.pairwise(columns.property_ends):
        count += sum(kept[first:last])
        ends.append(count)
    columns.property_ends[:] = ends
    columns.property_names[:] = itertools.compress(columns.property_names, kept)
    columns.property_texts[:] = itertools.compress(columns.property_texts, kept)
    columns.property_types[:] = itertools.compress(columns.property_types, kept)
