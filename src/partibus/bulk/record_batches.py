"""Messages as record batches, in the requested form.

Owns the schemas of reads and the conversion of stored messages to columns: whole messages as a peek
encodes them, or their parts. Importing this module needs pyarrow. Called by the Flight server.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from partibus.bulk import requests as asked
from partibus.bulk.answers import Messages
from partibus.domain.sequence import client_sequence
from partibus.fragment.message import Held
from partibus.message.envelope import to_peeked
from partibus.message.parts import MessageParts

SCHEMA: Final = pa.schema([("sequence_number", pa.int64()), ("message", pa.binary())])
_FACTS: Final = [
    ("sequence_number", pa.int64()),
    ("enqueued_sequence_number", pa.int64()),
    ("enqueued_ms", pa.int64()),
    ("ttl_ms", pa.int64()),
    ("delivery_count", pa.int32()),
    ("state", pa.int8()),
    ("head", pa.binary()),
]
SCHEMAS: Final = {
    "message": SCHEMA,
    "heads": pa.schema(_FACTS),
    "parts": pa.schema([*_FACTS, ("body", pa.binary()), ("body_kind", pa.int8())]),
}


def record_batch(ticket: asked.Ticket, found: Messages) -> pa.RecordBatch:
    """What was read, as one batch."""
    messages, bodies = found
    if ticket.form != "message":
        return _parts(ticket, messages, bodies)
    index = ticket.fragment
    numbers = [client_sequence(index, held.sequence) for held in messages]
    encoded = [
        to_peeked(body, held, number)
        for held, body, number in zip(messages, bodies, numbers, strict=True)
    ]
    columns = [pa.array(numbers, pa.int64()), pa.array(encoded, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _parts(
    ticket: asked.Ticket, messages: Sequence[Held], bodies: Sequence[bytes]
) -> pa.RecordBatch:
    parts = MessageParts(ticket.fragment, ticket.form == "parts")
    for held, body in zip(messages, bodies, strict=True):
        parts.add(held, body)
    lists: list[Any] = [
        parts.sequences,
        parts.enqueued_sequences,
        parts.enqueued_ms,
        parts.ttl_ms,
        parts.delivery_counts,
        parts.states,
        parts.heads,
    ]
    if ticket.form == "parts":
        lists += [parts.bodies, parts.body_kinds]
    schema = SCHEMAS[ticket.form]
    columns = [pa.array(values, of.type) for values, of in zip(lists, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
