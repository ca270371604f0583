"""Rows to encoded messages, in the executors.

Owns the encoding of the sink's columns as an AMQP message, as any sender would transfer it, and the
stable ids of rows. A row that cannot be a message is a `BadRow` with the reason; the writer decides
what happens to it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import EncodeError
from partibus.client.message import IncomingMessage
from partibus.client.message_rows import MessageRows
from pyspark_servicebus.schema import GIVEN_BY_THE_BUS, RAW_COLUMN, TARGET_COLUMN
from pyspark_servicebus.sink.plan import KEY, MESSAGE_ID, SEQUENCE, SinkPlan

ID_CHARACTERS: Final = 40


class BadRow(ValueError):
    """A row that cannot become a message; the text says why."""


class RowEncoder:
    """Makes messages of the rows of one task."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan
        self._wanted = {*plan.key, *(name for name, _ in plan.properties)}
        self._wanted |= plan.columns - GIVEN_BY_THE_BUS
        if plan.identity == SEQUENCE:
            self._wanted |= plan.columns & {"entity", "sequence_number"}
        self._seen: Counter[str] = Counter()
        """How many rows of this task came from the same message: each gets its own id."""

    def rows(self, batch: pa.RecordBatch) -> Iterator[tuple[str | None, bytes | BadRow]]:
        """For each row its target, if it names one, and its message."""
        columns = self._columns(batch)
        rows = MessageRows(columns, list(self._plan.properties))
        targets = columns.get(TARGET_COLUMN)
        raw = columns.get(RAW_COLUMN)
        identity = self._plan.identity
        for number in range(batch.num_rows):
            target = targets[number] if targets is not None else None
            try:
                message_id = None if identity is None else self._identity(columns, number)
                if raw is not None and raw[number] is not None:
                    message = IncomingMessage(raw[number]).resent(message_id)
                else:
                    message = rows.encode(number, message_id)
            except (EncodeError, DecodeError, ValueError, TypeError, OverflowError) as error:
                yield target, BadRow(str(error))
            else:
                yield target, message

    def _columns(self, batch: pa.RecordBatch) -> dict[str, list[Any]]:
        """The columns that matter, as lists; times as milliseconds."""
        found = {}
        for name in batch.schema.names:
            if name in self._wanted:
                column = batch.column(name)
                if pa.types.is_timestamp(column.type):
                    zone = column.type.tz
                    column = column.cast(pa.timestamp("ms", tz=zone), safe=False).cast(pa.int64())
                found[name] = column.to_pylist()
        return found

    # --- ids that are the same at every try -----------------------------------------------

    def _identity(self, columns: dict[str, list[Any]], row: int) -> str:
        identity = self._plan.identity
        if identity == MESSAGE_ID:
            if not columns["message_id"][row]:
                raise BadRow("message_id is empty, and deliver=dedup needs it")
            return str(columns["message_id"][row])
        names = self._plan.key if identity == KEY else ("sequence_number", "entity")
        values = [columns[name][row] for name in names if name in columns]
        if None in values[: 1 if identity == SEQUENCE else None]:
            raise BadRow(f"a column of the key is null: {', '.join(names)}")
        digest = hashlib.sha256(b"".join(map(_key_bytes, values)))
        made = digest.hexdigest()[:ID_CHARACTERS]
        if identity == KEY:
            return made
        # A message may have become several rows; they come in the same order at every attempt.
        ordinal = self._seen[made]
        self._seen[made] += 1
        return f"{made}-{ordinal}" if ordinal else made


def _key_bytes(value: object) -> bytes:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return len(raw).to_bytes(4) + raw
