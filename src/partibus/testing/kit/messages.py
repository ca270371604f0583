"""Messages of a namespace, peeked or sent by a test.

Owns the record that a test compares with, the peek behind it, and the sending of test data: over
AMQP with our own client, in a separate thread, so that they may be called from a coroutine too.
"""

import asyncio
import datetime
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from partibus.client.bus import Bus
from partibus.client.connection_string import ConnectionString
from partibus.client.message import DEAD_LETTER_PROPERTIES, IncomingMessage, OutgoingMessage
from partibus.domain.moments import calendar_moment

DEAD_LETTER_PATH: Final = "$deadletterqueue"
_ROUND: Final = 250

_Result = TypeVar("_Result")


@dataclass(slots=True, frozen=True, kw_only=True)
class Message:
    """One message of an entity."""

    body: object
    """Text if the bytes are UTF-8, else bytes; or the content of an AMQP value or sequence."""
    sequence_number: int
    state: str
    """`active` (locked or not), `deferred` or `scheduled`."""
    message_id: str | None = None
    session_id: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    reply_to: str | None = None
    to: str | None = None
    partition_key: str | None = None
    delivery_count: int = 0
    properties: Mapping[str, object] = field(default_factory=dict)
    """The application properties, without the dead-letter reason and description."""
    dead_letter_reason: str | None = None
    dead_letter_description: str | None = None
    dead_letter_source: str | None = None
    enqueued_at: datetime.datetime | None = None
    scheduled_for: datetime.datetime | None = None
    time_to_live: datetime.timedelta | None = None


def peek_all(connection: ConnectionString, path: str, ca_file: str | None) -> list[Message]:
    """Every message of an entity, in the order of their numbers."""
    return _aside(_peek(connection, path, ca_file))


def send_all(
    connection: ConnectionString, path: str, ca_file: str | None, messages: list[OutgoingMessage]
) -> None:
    """Send messages to a queue or topic, one by one; a refusal is a RemoteError."""
    _aside(_send(connection, path, ca_file, messages))


def _aside(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine in a separate loop, whatever loop runs here."""
    with ThreadPoolExecutor(1, "partibus-testing") as aside:
        return aside.submit(asyncio.run, work).result()


async def _send(
    connection: ConnectionString, path: str, ca_file: str | None, messages: list[OutgoingMessage]
) -> None:
    async with Bus.open(connection, ca_file=ca_file) as bus:
        sender = await bus.sender(path)
        for message in messages:
            await sender.send(message.encode())


async def _peek(connection: ConnectionString, path: str, ca_file: str | None) -> list[Message]:
    found: list[Message] = []
    async with Bus.open(connection, ca_file=ca_file) as bus:
        management = await bus.management(path)
        number = 0
        while some := await management.peek(number, _ROUND):
            found += map(_message, some)
            number = some[-1].sequence_number + 1
    return found


def _message(found: IncomingMessage) -> Message:
    fields, application = found.properties, found.application_properties
    reason, description = (_text(application.get(name)) for name in DEAD_LETTER_PROPERTIES)
    life_ms = found.time_to_live_ms
    return Message(
        body=_body(found),
        sequence_number=found.sequence_number,
        state=found.state,
        message_id=_text(fields.message_id),
        session_id=fields.group_id,
        subject=fields.subject,
        correlation_id=_text(fields.correlation_id),
        content_type=None if fields.content_type is None else str(fields.content_type),
        reply_to=_text(fields.reply_to),
        to=_text(fields.to),
        partition_key=found.partition_key,
        delivery_count=found.delivery_count,
        properties=found.own_properties(),
        dead_letter_reason=reason,
        dead_letter_description=description,
        dead_letter_source=found.dead_letter_source,
        enqueued_at=_moment(found.enqueued_ms),
        scheduled_for=_moment(found.scheduled_ms),
        time_to_live=None if life_ms is None else datetime.timedelta(milliseconds=life_ms),
    )


def _body(found: IncomingMessage) -> object:
    _, body = found.body()
    if isinstance(body, bytes):
        try:
            return body.decode()
        except UnicodeDecodeError:
            return body
    return body


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _moment(time_ms: int | None) -> datetime.datetime | None:
    if time_ms is None:
        return None
    return calendar_moment(time_ms)
