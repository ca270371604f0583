"""BrokerProperties: a message's system properties as one JSON object (HTP-1).

Owns the names, the types and both directions. Unknown names are ignored, as the vendor does; a
known one of the wrong type is refused by name. Called for the header of a single message, for each
message of a batch, and for what is received.
"""

import datetime
import json
import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.sections import MessageProperties
from partibus.amqp.codec.text import text_of
from partibus.domain import annotations as annotation_names
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import timestamp_ms
from partibus.rest.http_date import from_http_date, to_http_date

# The vendor's own type: optional days in front, optional fractions behind.
_TIME_SPAN: Final = re.compile(
    r"(?:([0-9]{1,8})\.)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,7}))?"
)
_STATES: Final[dict[object, str]] = {1: "Deferred", 2: "Scheduled"}
"""The states of messages that are not active (MSG-2)."""
TTL_MS_MAX: Final = 0xFFFF_FFFE
"""The maximum time to live in the wire's header; a longer one is reduced to it."""


@dataclass(slots=True, kw_only=True)
class SentProperties:
    """The properties that a sender may set."""

    message_id: str | None = None
    correlation_id: str | None = None
    session_id: str | None = None
    partition_key: str | None = None
    via_partition_key: str | None = None
    label: str | None = None
    to: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    content_type: str | None = None
    ttl_ms: int = -1
    scheduled_ms: int | None = None

    def to_amqp(self) -> MessageProperties:
        """The fields that AMQP has in its properties section."""
        return MessageProperties(
            message_id=self.message_id,
            to=self.to,
            subject=self.label,
            reply_to=self.reply_to,
            correlation_id=self.correlation_id,
            content_type=self.content_type,
            group_id=self.session_id,
            reply_to_group_id=self.reply_to_session_id,
        )


_TEXTS: Final = {
    field.title().replace("_", ""): field
    for field in SentProperties.__dataclass_fields__
    if not field.endswith("_ms")
}
"""The fields that are text, by the vendor's names: MessageId, ReplyToSessionId and so on."""


def parse_header(text: str) -> SentProperties:
    """The properties of a single message; its header contains a JSON object."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"The BrokerProperties header is not JSON: {error}.") from error
    return read_properties(given, "The BrokerProperties header")


def read_properties(given: object, where: str) -> SentProperties:
    """The properties of a decoded object; `where` begins the text of a refusal."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{where} must be a JSON object.")
    found = SentProperties()
    for name, field in _TEXTS.items():
        if given.get(name) is not None:
            setattr(found, field, _text(given[name], name, where))
    ttl, span = given.get("TimeToLive"), given.get("TimeToLiveTimeSpan")
    if span is not None:
        found.ttl_ms = _span_ms(span, where)
    if ttl is not None:
        found.ttl_ms = _span_ms(ttl, where) if isinstance(ttl, str) else _seconds_ms(ttl, where)
    if given.get("ScheduledEnqueueTimeUtc") is not None:
        found.scheduled_ms = _moment_ms(given["ScheduledEnqueueTimeUtc"], where)
    return found


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f'{where}: {name} must be a string, such as "{name}": "abc".')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"{where}: {name} contains half a surrogate pair.") from error
    return value


def _seconds_ms(value: object, where: str) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return int(min(value * 1000, TTL_MS_MAX))
    raise ArgumentError(
        f"{where}: TimeToLive must be a number of seconds, or a span such as 0.00:00:40."
    )


def _span_ms(value: object, where: str) -> int:
    """Parse the vendor's time span: days, hours, minutes, seconds, fractions."""
    match = _TIME_SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ArgumentError(f"{where}: the time to live must be a span such as 0.00:00:40.")
    days, hours, minutes, seconds, fraction = match.groups()
    whole = ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    return min(whole * 1000 + int((fraction or "0").ljust(3, "0")[:3]), TTL_MS_MAX)


def _moment_ms(value: object, where: str) -> int:
    text = value.strip() if isinstance(value, str) else ""
    at_ms = from_http_date(text)
    if at_ms is not None:
        return at_ms
    try:
        return timestamp_ms(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise ArgumentError(
            f"{where}: ScheduledEnqueueTimeUtc must be a time such as"
            " Sun, 06 Nov 1994 08:49:37 GMT."
        ) from error


# --- out ----------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True, kw_only=True)
class Broker:
    """What the broker knows about a received message."""

    sequence: int
    delivery_count: int
    enqueued_ms: int
    ttl_ms: int
    lock_token: uuid.UUID | None
    locked_until_ms: int


def write_header(
    properties: MessageProperties, annotations: Mapping[str, object], broker: Broker
) -> str:
    """The header of a received message, in ASCII."""
    shown: dict[str, object] = {
        "DeliveryCount": broker.delivery_count,
        # Only a forwarded message has its first sequence number (FWD-9).
        "EnqueuedSequenceNumber": annotations.get(
            annotation_names.ENQUEUE_SEQUENCE_NUMBER, broker.sequence
        ),
        "EnqueuedTimeUtc": to_http_date(broker.enqueued_ms),
        "MessageId": text_of(properties.message_id),
        "SequenceNumber": broker.sequence,
        "State": _STATES.get(annotations.get(annotation_names.MESSAGE_STATE), "Active"),
        "CorrelationId": text_of(properties.correlation_id),
        "Label": properties.subject,
        "ReplyTo": properties.reply_to,
        "ReplyToSessionId": properties.reply_to_group_id,
        "SessionId": properties.group_id,
        "To": properties.to,
        "PartitionKey": text_of(annotations.get(annotation_names.PARTITION_KEY)),
        "DeadLetterSource": text_of(annotations.get(annotation_names.DEAD_LETTER_SOURCE)),
    }
    if broker.lock_token is not None:
        shown["LockToken"] = str(broker.lock_token)
        shown["LockedUntilUtc"] = to_http_date(broker.locked_until_ms)
    if broker.ttl_ms >= 0:
        shown["TimeToLive"] = broker.ttl_ms / 1000
    scheduled = annotations.get(annotation_names.SCHEDULED_TIME)
    if isinstance(scheduled, int):
        shown["ScheduledEnqueueTimeUtc"] = to_http_date(scheduled)
    return json.dumps({name: value for name, value in shown.items() if value is not None})
