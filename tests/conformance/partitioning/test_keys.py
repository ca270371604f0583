"""Partition keys: which property is the key, where a key goes, and the order it keeps."""

import asyncio
import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError
from proton import Message
from proton.utils import SendException

from conformance.partitioning.namespace import PARTITIONS, Queues
from conformance.partitioning.partitions import key_of_each, partition_of, partition_of_key, spread
from conformance.partitioning.wire import Wire, keyed, number_of
from conformance.settlement.bus import Bus
from conformance.settlement.steps import utc_now
from support.javascript import failure
from support.receiving import collect_async
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

SCRIPT = "../partitioning/js/partitioning.mjs"
# Of one letter, of the longest allowed, outside ASCII, and all the same but for the end.
KEYS = ["a", "x" * 128, "żółw", "消息", "order-1", "order-2", "order-3", "order-4", " ", "A"]


def found_in(wire: Wire, queue: str, count: int) -> dict[str, set[int]]:
    """The partitions in which each key was found; a message's body is its key."""
    found: dict[str, set[int]] = {}
    for message in wire.take(queue, count):
        key = bytes(message.body).decode()
        found.setdefault(key, set()).add(partition_of(number_of(message)))
    return found


@pytest.mark.rule("SEED-26", "SEED-28", "SEED-32", "SEED-49", "SEED-57")
async def test_a_partition_key_selects_its_partition_by_the_documented_hash(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    async with async_client.get_queue_sender(queue) as sender:
        await asyncio.gather(
            *(sender.send_messages(ServiceBusMessage(key, partition_key=key)) for key in KEYS * 5)
        )
    expected = {key: {partition_of_key(key, PARTITIONS["spread"])} for key in KEYS}
    assert found_in(wire, queue, len(KEYS) * 5) == expected
    # Written down once: whoever changes the hash loses the order of what is stored.
    known = {"a": {7}, "order-1": {8}, "żółw": {13}, "消息": {14}, "x" * 128: {12}}
    assert known.items() <= expected.items()


@pytest.mark.rule("SEED-28")
def test_many_keys_use_all_partitions(wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed("text", f"customer-{number}") for number in range(320)))
    shares = spread(map(number_of, wire.take(queue, 320)))
    assert len(shares) == PARTITIONS["spread"]
    # Were the hash a die, twice the even share would come up about once in ten thousand.
    assert max(shares.values()) < 2 * 320 / PARTITIONS["spread"] + 5


@pytest.mark.rule("SEED-30")
async def test_a_session_id_is_the_key(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    async with async_client.get_queue_sender(queue) as sender:
        for key in KEYS * 2:
            await sender.send_messages(ServiceBusMessage(key, session_id=key))
    expected = {key: {partition_of_key(key, PARTITIONS["spread"])} for key in KEYS}
    assert found_in(wire, queue, len(KEYS) * 2) == expected


@pytest.mark.rule("SEED-33")
def test_both_are_accepted_when_they_are_the_same(bus: Bus, wire: Wire, queue: str) -> None:
    sender = bus.sender(queue)
    for key in KEYS:
        sender.send_messages(ServiceBusMessage(key, session_id=key, partition_key=key))
    expected = {key: {partition_of_key(key, 4)} for key in KEYS}
    assert found_in(wire, queue, len(KEYS)) == expected


@pytest.mark.rule("SEED-33", "CON-10", "ERR-13", "ERR-22")
def test_both_are_refused_when_they_differ(bus: Bus, wire: Wire, queue: str) -> None:
    message = ServiceBusMessage("torn", session_id="one")
    # The client itself refuses the setter, so the annotation is written behind its back.
    message.raw_amqp_message.annotations = {b"x-opt-partition-key": "other"}
    with pytest.raises(ServiceBusError, match=r"'other' differs .* 'one'") as refusal:
        bus.sender(queue).send_messages(message)
    assert "amqp:not-allowed" in str(refusal.value)
    assert "TrackingId:" in str(refusal.value)
    with pytest.raises(SendException):
        wire.send(queue, keyed("torn", "other", group_id="one"))
    assert wire.peek(queue) == [], "nothing was stored"


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-33", "CON-10", "ERR-13")
def test_the_javascript_client_shows_the_refusal(server: ServerProcess, queue: str) -> None:
    # The client itself refuses its own two properties; the raw form of a message has neither.
    torn = {
        "bodyType": "value",
        "body": "torn",
        "properties": {"groupId": "one"},
        "messageAnnotations": {"x-opt-partition-key": "other"},
    }
    error = failure(SCRIPT, "send", connection=server.connection_string, queue=queue, messages=torn)
    assert error["name"] == "ServiceBusError"
    assert error["text"].startswith("InvalidOperationError: ")
    assert "'other' differs from the session id 'one'" in error["text"]


@pytest.mark.rule("SEED-30", "SEED-32", "SEED-37")
@pytest.mark.parametrize("property_name", ["session_id", "partition_key"])
def test_the_message_id_never_comes_before_a_key(
    bus: Bus, wire: Wire, queue: str, property_name: str
) -> None:
    key, *others = key_of_each(4)
    sender = bus.sender(queue)
    for other in others:
        message = ServiceBusMessage("text", message_id=other, **{property_name: key})
        sender.send_messages(message)
    assert wire.partitions(queue) == [0, 0, 0]


@pytest.mark.rule("SEED-32")
def test_the_keys_come_back_to_the_receiver(wire: Wire, bus: Bus, queue: str) -> None:
    wire.send(queue, keyed("text", "the-key", group_id="the-key"))
    (message,) = bus.receiver(queue).receive_messages(max_wait_time=30)
    assert (message.partition_key, message.session_id) == ("the-key", "the-key")


@pytest.mark.rule("SEQ-10", "CON-11", "SEED-28", "SEED-31")
async def test_the_order_of_every_key_is_kept(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    keys = [f"stream-{number}" for number in range(12)]

    async def send(key: str, name: str) -> None:
        """One sender, in sequence, while the others send too."""
        async with async_client.get_queue_sender(queue) as sender:
            for number in range(20):
                await sender.send_messages(ServiceBusMessage(str(number), **{name: key}))

    names = ["partition_key", "session_id"] * 6
    await asyncio.gather(*map(send, keys, names))
    async with async_client.get_queue_receiver(queue, prefetch_count=100) as receiver:
        messages = await collect_async(receiver, 20 * len(keys))
    for key in keys:
        own = [m for m in messages if key in (m.partition_key, m.session_id)]
        assert [str(message) for message in own] == [str(number) for number in range(20)]
        numbers = [message.sequence_number or 0 for message in own]
        assert numbers == sorted(numbers)


@pytest.mark.rule("SEQ-10")
def test_the_order_of_a_key_is_kept_in_a_pipeline_that_mixes_keys(wire: Wire, queue: str) -> None:
    keys = [f"stream-{number}" for number in range(9)]
    wire.fill(queue, (keyed(str(n), keys[n % 9], subject=keys[n % 9]) for n in range(900)))
    received: dict[str, list[int]] = {}
    for message in wire.take(queue, 900):
        received.setdefault(message.subject, []).append(int(bytes(message.body)))
    assert received == {keys[first]: list(range(first, 900, 9)) for first in range(9)}


@pytest.mark.rule("SEED-28", "SEED-76", "SCH-1")
def test_scheduled_messages_follow_their_key(bus: Bus, queue: str) -> None:
    later = utc_now() + datetime.timedelta(hours=1)
    keys = key_of_each(4)
    numbers = [
        bus.sender(queue).schedule_messages(ServiceBusMessage("later", partition_key=key), later)[0]
        for key in keys
    ]
    assert [partition_of(number) for number in numbers] == [0, 1, 2, 3]


@pytest.mark.rule("MSG-2", "ERR-14")
def test_a_key_longer_than_allowed_is_refused(wire: Wire, queue: str) -> None:
    with pytest.raises(SendException):
        wire.send(queue, keyed("text", "x" * 129))
    with pytest.raises(SendException):
        wire.send(queue, Message(body="text", group_id="x" * 129))
    assert wire.peek(queue) == []


@pytest.mark.rule("SEED-2", "SEED-10")
def test_a_key_is_harmless_where_there_are_no_partitions(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("whole")
    sender = bus.sender(queue)
    for key in KEYS:
        sender.send_messages(ServiceBusMessage(key, partition_key=key))
    messages = wire.take(queue, len(KEYS))
    assert [bytes(message.body).decode() for message in messages] == KEYS
    assert {partition_of(number_of(message)) for message in messages} == {0}
