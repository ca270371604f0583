"""Between REST and the stock client: what one sends the other receives, property by property."""

import datetime
import json
import uuid
from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage

from conformance.rest.http_bus import HttpBus
from support.receiving import collect
from support.server import ServerProcess


@pytest.fixture
def client(server: ServerProcess) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(server.connection_string, retry_total=0) as made:
        yield made


@pytest.mark.rule("HTP-1", "MSG-1")
def test_sent_by_rest_received_by_the_sdk(
    bus: HttpBus, client: ServiceBusClient, queue: str
) -> None:
    properties = {
        "MessageId": "the-id",
        "CorrelationId": "the-correlation",
        "SessionId": "the-session",
        "PartitionKey": "the-session",
        "Label": "the-label \u00e9",
        "To": "the-destination",
        "ReplyTo": "the-reply-queue",
        "ReplyToSessionId": "the-reply-session",
        "TimeToLive": 90,
        "Unheard": "of",
    }
    headers = {
        "Content-Type": "application/json",
        "Priority": '"High"',
        "Customer": '"12345,ABC"',
        "Count": "42",
        "Negative": "-7",
        "Ratio": "1.5",
        "IsUrgent": "true",
        "Due": '"Sun, 06 Nov 1994 08:49:37 GMT"',
        "Greeting": '"gr\\u00fc\\u00dfe \\"you\\""',
        "Bare": "no quotes",
    }
    assert bus.send(queue, b'{"n": 1}', properties, headers).status == 201
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        receiver.complete_message(message)
    assert b"".join(message.body) == b'{"n": 1}'
    assert message.content_type == "application/json"
    assert message.message_id == "the-id"
    assert message.correlation_id == "the-correlation"
    assert message.session_id == "the-session"
    assert message.partition_key == "the-session"
    assert message.subject == "the-label \u00e9"
    assert message.to == "the-destination"
    assert message.reply_to == "the-reply-queue"
    assert message.reply_to_session_id == "the-reply-session"
    assert message.time_to_live == datetime.timedelta(seconds=90)
    assert message.application_properties == {
        b"Priority": b"High",
        b"Customer": b"12345,ABC",
        b"Count": 42,
        b"Negative": -7,
        b"Ratio": 1.5,
        b"IsUrgent": True,
        b"Due": 784_111_777_000,
        b"Greeting": 'gr\u00fc\u00dfe "you"'.encode(),
        b"Bare": b"no quotes",
    }


@pytest.mark.rule("HTP-2", "MSG-1")
def test_sent_by_the_sdk_received_by_rest(
    bus: HttpBus, client: ServiceBusClient, queue: str
) -> None:
    sent = ServiceBusMessage(
        b"\x00\xff binary",
        message_id="the-id",
        correlation_id="the-correlation",
        session_id="the-session",
        partition_key="the-session",
        subject="the-label",
        to="the-destination",
        reply_to="the-reply-queue",
        reply_to_session_id="the-reply-session",
        content_type="application/octet-stream",
        time_to_live=datetime.timedelta(hours=1),
        application_properties={
            "Priority": "High",
            "text": "gr\u00fc\u00dfe\r\nX-Evil: 1",
            "count": 42,
            "ratio": 1.5,
            "yes": True,
            "when": datetime.datetime(1994, 11, 6, 8, 49, 37, tzinfo=datetime.UTC),
            "id": uuid.UUID(int=7),
            "Content-Length": "a name that HTTP has taken",
            "a name with spaces": "cannot be a header",
        },
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    locked = bus.lock(queue)
    assert (locked.status, locked.body) == (201, b"\x00\xff binary")
    shown = locked.broker
    assert {name: shown[name] for name in ("MessageId", "CorrelationId", "SessionId")} == {
        "MessageId": "the-id",
        "CorrelationId": "the-correlation",
        "SessionId": "the-session",
    }
    assert (shown["PartitionKey"], shown["Label"]) == ("the-session", "the-label")
    assert (shown["To"], shown["ReplyTo"]) == ("the-destination", "the-reply-queue")
    assert (shown["ReplyToSessionId"], shown["TimeToLive"]) == ("the-reply-session", 3600)
    assert locked.header("Content-Type") == "application/octet-stream"
    assert locked.header("Priority") == '"High"'
    assert json.loads(locked.header("text")) == "gr\u00fc\u00dfe\r\nX-Evil: 1"
    assert (locked.header("count"), locked.header("ratio"), locked.header("yes")) == (
        "42",
        "1.5",
        "true",
    )
    assert locked.header("when") == '"Sun, 06 Nov 1994 08:49:37 GMT"'
    assert locked.header("id") == f'"{uuid.UUID(int=7)}"'
    names = {name.lower() for name, _ in locked.headers}
    assert not names & {"a name with spaces", "x-evil"}
    assert bus.complete(locked) == 200


def test_other_bodies_of_amqp(bus: HttpBus, client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for number, body in enumerate(
            (
                {"value_body": "a text"},
                {"value_body": {"n": [1, None, b"\x00"]}},
                {"sequence_body": [[1, 2], ["three"]]},
                {"data_body": [b"one ", b"two"]},
            )
        ):
            properties = {"message_id": str(number)}
            sender.send_messages(AmqpAnnotatedMessage(**body, properties=properties))
    bodies = {answer.broker["MessageId"]: answer.body for answer in bus.drain(queue)}
    assert bodies["0"] == b"a text"
    assert json.loads(bodies["1"]) == {"n": [1, None, "AA=="]}
    assert json.loads(bodies["2"]) == [[1, 2], ["three"]]
    assert bodies["3"] == b"one two"


@pytest.mark.rule("LCK-6")
def test_a_lock_knows_no_protocol(bus: HttpBus, client: ServiceBusClient, queue: str) -> None:
    """Locked by one, settled by the other, both ways."""
    bus.send(queue, b"by the SDK")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        token = message.lock_token
        assert bus.ask("DELETE", f"/{queue}/messages/{message.message_id}/{token}").status == 200
    assert bus.take(queue).status == 204


def test_delivery_counts_agree(bus: HttpBus, client: ServiceBusClient, queue: str) -> None:
    bus.send(queue, b"counted")
    bus.unlock(bus.lock(queue))
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        # The SDK counts deliveries before this one, REST this one too.
        assert message.delivery_count == 1
        receiver.abandon_message(message)
    assert bus.take(queue, timeout=30).broker["DeliveryCount"] == 3
