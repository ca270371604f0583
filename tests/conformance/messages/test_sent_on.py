"""A received message that is sent on as it is, through both stock Python clients.

The client then writes text that it received as binary: the partition key, the message id and the
correlation id. The bus must see the same text as on the first way.
"""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.messages.conftest import PARTITIONS, Queues
from conformance.partitioning.partitions import key_of_each, partition_of, partition_of_key
from conformance.settlement.bus import Bus
from support.receiving import collect
from support.server import ServerProcess

KEYS = key_of_each(PARTITIONS)
TARGETS = ("plain", "parted", "session", "parted-session")
CUSTOM = {"kind": "order", "count": 3}


def letters(keys: list[str], session: bool) -> list[ServiceBusMessage]:
    return [
        ServiceBusMessage(
            key,
            partition_key=key,
            session_id=key if session else None,
            message_id=f"id-{key}",
            correlation_id=f"correlation-{key}",
            subject="subject",
            to="to",
            reply_to="reply",
            reply_to_session_id="reply-session",
            content_type="text/plain",
            application_properties=dict(CUSTOM),
        )
        for key in keys
    ]


def check(message: ServiceBusReceivedMessage, target: str, session: bool) -> None:
    key = str(message)
    raw = message.raw_amqp_message
    assert raw.annotations is not None and raw.properties is not None
    assert message.partition_key == key
    assert raw.annotations[b"x-opt-partition-key"] == key.encode()
    assert message.session_id == (key if session else None)
    assert (message.message_id, message.correlation_id) == (f"id-{key}", f"correlation-{key}")
    assert (message.subject, message.to, message.reply_to) == ("subject", "to", "reply")
    assert (message.reply_to_session_id, message.content_type) == ("reply-session", "text/plain")
    assert message.application_properties == {b"kind": b"order", b"count": 3}
    assert raw.annotations.keys() <= {
        b"x-opt-partition-key",
        b"x-opt-sequence-number",
        b"x-opt-enqueued-time",
        b"x-opt-locked-until",
    }
    if target.startswith("parted"):
        assert message.sequence_number is not None
        assert partition_of(message.sequence_number) == partition_of_key(key, PARTITIONS)


@pytest.mark.rule("SEED-28", "SEED-30", "SEED-32", "SEED-33")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_batch", [False, True])
def test_it_goes_where_it_would_have_gone(
    bus: Bus, queues: Queues, target: str, is_batch: bool
) -> None:
    session = "session" in target
    first, second = queues.fresh("plain"), queues.fresh(target)
    bus.sender(first).send_messages(letters(KEYS, session))
    sender = bus.sender(second)
    with bus.receiver(first) as receiver:
        received = collect(receiver, len(KEYS))
        if is_batch and target == "plain":
            batch = sender.create_message_batch()
            for message in received:
                batch.add_message(message)
            sender.send_messages(batch)
        else:
            for message in received:
                sender.send_messages(message)
        for message in received:
            receiver.complete_message(message)
    arrived: list[ServiceBusReceivedMessage] = []
    if session:
        for key in KEYS:
            with bus.receiver(second, session_id=key, max_wait_time=10) as holder:
                arrived += collect(holder, 1)
    else:
        with bus.receiver(second) as receiver:
            arrived = collect(receiver, len(KEYS))
    assert sorted(map(str, arrived)) == sorted(KEYS)
    for message in arrived:
        check(message, target, session)


@pytest.mark.rule("SEED-33")
@pytest.mark.parametrize("target", TARGETS)
async def test_the_asynchronous_client_sends_on(
    server: ServerProcess, queues: Queues, target: str
) -> None:
    session = "session" in target
    first, second = queues.fresh(target), queues.fresh(target)
    options: dict[str, Any] = {"session_id": KEYS[0], "max_wait_time": 10} if session else {}
    async with AsyncServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as client:
        async with client.get_queue_sender(first) as sender:
            await sender.send_messages(letters(KEYS[:1], session))
        async with (
            client.get_queue_receiver(first, **options) as receiver,
            client.get_queue_sender(second) as sender,
        ):
            (message,) = await receiver.receive_messages(1, max_wait_time=10)
            await sender.send_messages(message)
            await receiver.complete_message(message)
        async with client.get_queue_receiver(second, **options) as receiver:
            (arrived,) = await receiver.receive_messages(1, max_wait_time=10)
            check(arrived, target, session)


@pytest.mark.rule("DUP-1", "SEED-35")
def test_it_is_known_as_a_duplicate(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("detecting")
    sender = bus.sender(queue)
    sender.send_messages(ServiceBusMessage("first", message_id="the-id"))
    with bus.receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        sender.send_messages(message)
        receiver.complete_message(message)
        sender.send_messages(ServiceBusMessage("marker", message_id="another"))
        (marker,) = collect(receiver, 1)
        assert str(marker) == "marker"
