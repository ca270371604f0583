"""Messages as lines of JSON: what `receive` and `peek` print and what `send` reads.

Owns the names of the fields and the forms of values without a JSON type. What was printed can be
sent again: fields that only the bus sets are then ignored. Unknown fields are errors that name the
nearest known one.
"""

import base64
import difflib
import json
import uuid
from typing import Any, Final

from partibus.amqp.codec.types import Array, Described, Pairs, Symbol, Timestamp
from partibus.client.message import DEAD_LETTER_PROPERTIES, IncomingMessage, OutgoingMessage
from partibus.domain.errors import ArgumentError
from partibus.domain.quantities import format_moment, moment_ms

TEXT_FIELDS: Final = (
    "message_id",
    "subject",
    "content_type",
    "correlation_id",
    "session_id",
    "reply_to",
    "reply_to_session_id",
    "to",
    "partition_key",
)
_OTHER_FIELDS: Final = (
    "body",
    "body_base64",
    "body_type",
    "properties",
    "application_properties",
    "time_to_live_ms",
    "scheduled_enqueue_time",
)
# Written by the bus; read back without effect, so that `receive | send` is a pipe.
_BUS_FIELDS: Final = (
    "sequence_number",
    "enqueued_time",
    "delivery_count",
    "state",
    "lock_token",
    "locked_until",
    "expires_at",
    "dead_letter_reason",
    "dead_letter_error_description",
    "dead_letter_source",
)


# --- to JSON ----------------------------------------------------------------------------------


def message_to_json(message: IncomingMessage) -> dict[str, Any]:
    """The message by field names; missing fields are left out."""
    fields = message.properties
    application = message.application_properties
    reason, description = (application.get(name) for name in DEAD_LETTER_PROPERTIES)
    shown = {
        "sequence_number": message.sequence_number,
        "message_id": None if fields.message_id is None else str(fields.message_id),
        "subject": fields.subject,
        "content_type": fields.content_type,
        "correlation_id": None if fields.correlation_id is None else str(fields.correlation_id),
        "session_id": fields.group_id,
        "reply_to": fields.reply_to,
        "reply_to_session_id": fields.reply_to_group_id,
        "to": fields.to,
        "partition_key": message.partition_key,
        "enqueued_time": format_moment(message.enqueued_ms),
        "scheduled_enqueue_time": format_moment(message.scheduled_ms),
        "time_to_live_ms": message.time_to_live_ms,
        "expires_at": format_moment(fields.absolute_expiry_time_ms),
        "delivery_count": message.delivery_count,
        "state": message.state,
        "lock_token": None if message.lock_token is None else str(message.lock_token),
        "locked_until": format_moment(message.locked_until_ms),
        "dead_letter_reason": reason,
        "dead_letter_error_description": description,
        "dead_letter_source": message.dead_letter_source,
        "properties": {
            name: value_to_json(value)
            for name, value in application.items()
            if name not in DEAD_LETTER_PROPERTIES
        }
        or None,
        **_body_to_json(message),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _body_to_json(message: IncomingMessage) -> dict[str, Any]:
    body_type, body = message.body()
    if body_type != "data":
        return {"body_type": body_type, "body": value_to_json(body)}
    assert isinstance(body, bytes)
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def bytes_to_json(data: bytes) -> Any:
    """Bytes as text, if they are UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return value_to_json(data)


def value_to_json(value: object) -> Any:
    """An AMQP value; times, ids and bytes are objects with one key that names the type."""
    if isinstance(value, Timestamp):
        return {"$time": format_moment(int(value))}
    if isinstance(value, uuid.UUID):
        return {"$uuid": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, Described):
        return {"$described": [value_to_json(value.descriptor), value_to_json(value.value)]}
    if isinstance(value, dict):
        return {str(key): value_to_json(item) for key, item in value.items()}
    if isinstance(value, Pairs):
        return [[value_to_json(key), value_to_json(item)] for key, item in value.items]
    if isinstance(value, Array | list):
        return [value_to_json(v) for v in (value.items if isinstance(value, Array) else value)]
    if isinstance(value, Symbol):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


# --- from JSON --------------------------------------------------------------------------------


def message_from_line(line: str, where: str) -> OutgoingMessage:
    """The message in one line of JSON; `where` is named in errors."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ArgumentError(f"{where}: this is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise ArgumentError(f'{where}: expected a JSON object such as {{"body": "x"}}.')
    return message_from_json(fields, where)


def message_from_json(fields: dict[str, Any], where: str) -> OutgoingMessage:
    """A message of fields by the names of this module."""
    _refuse_unknown(fields, where)
    message = OutgoingMessage()
    for name in TEXT_FIELDS:
        value = fields.get(name)
        if value is not None:
            setattr(message, name, _text(value, name, where))
    ttl_ms = fields.get("time_to_live_ms")
    if ttl_ms is not None:
        if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool) or ttl_ms < 0:
            raise ArgumentError(f"{where}: 'time_to_live_ms' must be a whole number.")
        message.time_to_live_ms = ttl_ms
    scheduled = fields.get("scheduled_enqueue_time")
    if scheduled is not None:
        message.scheduled_ms = _moment(scheduled, where)
    _take_properties(message, fields.get("properties", fields.get("application_properties")), where)
    _take_body(message, fields, where)
    return message


def _refuse_unknown(fields: dict[str, Any], where: str) -> None:
    known = (*TEXT_FIELDS, *_OTHER_FIELDS, *_BUS_FIELDS)
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else "put it into 'properties'."
            raise ArgumentError(f"{where}: '{name}' is not a field of a message; {hint}")


def _take_properties(message: OutgoingMessage, properties: object, where: str) -> None:
    if properties is None:
        return
    if not isinstance(properties, dict):
        raise ArgumentError(f"{where}: 'properties' must be an object.")
    message.properties = {
        name: value_from_json(value, f"{where}: properties.{name}")
        for name, value in properties.items()
    }


def _take_body(message: OutgoingMessage, fields: dict[str, Any], where: str) -> None:
    body_type = fields.get("body_type", "data")
    body = fields.get("body")
    if body_type == "sequence" and not isinstance(body, list):
        raise ArgumentError(f"{where}: the body of a sequence must be a list.")
    if body_type in ("value", "sequence"):
        message.body_type = body_type
        message.body = value_from_json(body, f"{where}: body")
    elif body_type != "data":
        text = f"{where}: 'body_type' is data, value or sequence, not '{body_type}'."
        raise ArgumentError(text)
    elif "body_base64" in fields:
        message.body = _bytes(fields["body_base64"], where)
    elif isinstance(body, str):
        message.body = body.encode()
    elif body is not None:
        # A JSON body is sent as JSON text.
        message.body = json.dumps(body, ensure_ascii=False).encode()
        message.content_type = message.content_type or "application/json"


def value_from_json(value: Any, where: str) -> object:
    """The AMQP value of a JSON one: whole numbers are longs, others doubles."""
    if isinstance(value, list):
        return [value_from_json(item, where) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "$time":
            return Timestamp(_moment(inner, where))
        if key == "$bytes":
            return _bytes(inner, where)
        if key == "$uuid":
            return _uuid(inner, where)
    return {name: value_from_json(item, where) for name, item in value.items()}


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{where}: '{name}' must be a string.")
    return value


def _moment(value: object, where: str) -> int:
    try:
        return moment_ms(str(value))
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error.text}") from error


def _bytes(value: object, where: str) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError as error:
        raise ArgumentError(f"{where}: the bytes are not base64.") from error


def _uuid(value: object, where: str) -> uuid.UUID:
    try:
        return uuid.UUID(str(value))
    except ValueError as error:
        raise ArgumentError(f"{where}: '{value}' is not a UUID.") from error
