"""A client of the in-memory bus that accepts sessions, and one that asks management nodes.

Owns what tests of sessions do again and again: sending into sessions, accepting one, receiving,
and requests with their answers.
"""

from collections.abc import Iterator
from itertools import count

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    MessageProperties,
    decode_application_properties,
    decode_properties,
    encode_application_properties,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.types import UInt
from partibus.amqp.events import (
    DetachReceived,
    DispositionReceived,
    Event,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.testing.bus import ClientBench
from support.gateway.messages import in_session

FILTER = "com.microsoft:session-filter"

_names: Iterator[int] = count()


def send(client: ClientBench, queue: str, *messages: tuple[int, str]) -> list[object]:
    link = client.attach(queue, sends=True, name=f"sender-{next(_names)}")
    client.send(link, [in_session(number, session_id) for number, session_id in messages])
    return outcomes(client)


def accept(
    client: ClientBench, queue: str, session: object = None, wait_ms: int | None = None
) -> Link:
    properties: dict[str, object] = {}
    if wait_ms is not None:
        properties["com.microsoft:timeout"] = UInt(wait_ms)
    return client.attach(
        queue,
        sends=False,
        name=f"receiver-{next(_names)}",
        filters={FILTER: session},
        properties=properties,
    )


def given(link: Link) -> object:
    """The session that an attach reply names."""
    assert link.source is not None, "the link was refused or not answered"
    return link.source.filters[FILTER]


def outcomes(client: ClientBench) -> list[object]:
    found: list[object] = []
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived)
        found += [event.state] * len(event.deliveries)
    return found


def receive(client: ClientBench, link: Link, credit: int) -> list[TransferReceived]:
    link.set_credit(credit)
    client.run()
    return [event for event in client.take(TransferReceived) if isinstance(event, TransferReceived)]


def bodies(events: list[TransferReceived]) -> list[int]:
    return [int(event.payload[-2:]) for event in events]


def detach_condition(client: ClientBench) -> str | None:
    """The condition of the one detach that came; None when none did."""
    detached = client.take(DetachReceived)
    if not detached:
        return None
    (event,) = detached
    assert isinstance(event, DetachReceived) and event.error is not None
    return str(event.error.condition)


class Management:
    """Requests to a queue's management node."""

    def __init__(self, client: ClientBench, queue: str) -> None:
        node = f"{queue}/$management"
        self._client = client
        self._requests = client.attach(node, sends=True, name=f"request-{next(_names)}")
        self._responses = client.attach(node, sends=False, name=f"response-{next(_names)}")
        self._responses.set_credit(100)
        self._answers: list[Event] = []
        self.link_name = ""
        """The link that the requests name as theirs, if any."""
        client.run()

    def ask(self, operation: str, **fields: object) -> tuple[int, dict[str, object], str | None]:
        """Status, body and condition of an answer that comes at once."""
        self.begin(operation, **fields)
        return self.answer()

    def begin(self, operation: str, **fields: object) -> None:
        """Ask, and do not wait for the answer."""
        properties = MessageProperties(message_id="request")
        body = {name.replace("_", "-"): value for name, value in fields.items()}
        application: dict[str, object] = {"operation": f"com.microsoft:{operation}"}
        if self.link_name:
            application["associated-link-name"] = self.link_name
        self._requests.send(
            encode_properties(properties)
            + encode_application_properties(application)
            + b"\x00\x53\x77"
            + encode_value(body),
            b"t",
            True,
            0,
            None,
        )
        self._client.run()

    def answer(self) -> tuple[int, dict[str, object], str | None]:
        """Status, body and condition of the next answer."""
        self._client.run()
        self._answers += self._client.take(TransferReceived)
        event = self._answers.pop(0)
        assert isinstance(event, TransferReceived)
        sections = parse_sections(event.payload)
        assert decode_properties(event.payload, sections).correlation_id == "request"
        status = decode_application_properties(event.payload, sections)
        value, _ = decode_value(event.payload, sections.body_offset + 3, len(event.payload))
        assert isinstance(value, dict) or value is None
        code = status["statusCode"]
        assert isinstance(code, int)
        condition = status.get("errorCondition")
        return int(code), dict(value or {}), None if condition is None else str(condition)
