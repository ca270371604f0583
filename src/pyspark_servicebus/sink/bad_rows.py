"""Rows that cannot be messages, as separate messages.

Owns the form in which a bad row goes to its queue: a JSON object with the reason and the row, so
that it can be examined and sent again. What is too long for the queue is left out and named.
"""

import base64
import datetime
import json
from typing import Any, Final

import pyarrow as pa

from partibus.client.message import OutgoingMessage

SUBJECT: Final = "bad row"
ROOM_BYTES: Final = 4096
"""The space that the envelope of the message needs besides its body."""
TEXT_CHARACTERS_MAX: Final = 1000


def bad_row_message(
    batch: pa.RecordBatch, row: int, target: str, condition: str, text: str, bytes_max: int
) -> bytes:
    """The message about a row, no longer than the queue accepts."""
    values = {name: _plain(batch.column(name)[row].as_py()) for name in batch.schema.names}
    reported: dict[str, Any] = {
        "reason": text[:TEXT_CHARACTERS_MAX],
        "condition": condition,
        "target": target,
        "binary_columns": [f.name for f in batch.schema if pa.types.is_binary(f.type)],
        "left_out": [],
        "row": values,
    }
    body = _written(reported)
    while len(body) > bytes_max - ROOM_BYTES and values:
        longest = max(values, key=lambda name: len(json.dumps(values[name])))
        del values[longest]
        reported["left_out"].append(longest)
        body = _written(reported)
    message = OutgoingMessage(body=body, subject=SUBJECT, content_type="application/json")
    return message.encode()


def _written(reported: dict[str, Any]) -> bytes:
    return json.dumps(reported, ensure_ascii=False).encode()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
