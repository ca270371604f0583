"""Batches on partitioned queues: whole without a key, split or refused with several."""

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from conformance.partitioning.partitions import (
    key_of_each,
    keys_in,
    partition_of,
    partition_of_key,
)
from conformance.partitioning.wire import Wire, number_of
from conformance.settlement.bus import Bus
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

MEGABYTE = 1024 * 1024


def messages(*keys: str | None) -> list[ServiceBusMessage]:
    """A message for each key, numbered."""
    return [
        ServiceBusMessage(str(number), partition_key=key, subject=key)
        for number, key in enumerate(keys)
    ]


@pytest.mark.rule("BAT-3", "SEED-39", "SEED-76")
def test_a_batch_without_a_key_goes_whole_to_one_partition(
    bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    for batch in range(4):
        sender.send_messages([ServiceBusMessage(f"{batch}-{n}") for n in range(25)])
    places: dict[str, set[int]] = {}
    for message in wire.take(queue, 100):
        batch_name = bytes(message.body).decode().split("-")[0]
        places.setdefault(batch_name, set()).add(partition_of(number_of(message)))
    assert all(len(partitions) == 1 for partitions in places.values()), places
    # One batch is one turn.
    assert set.union(*places.values()) == {0, 1, 2, 3}


@pytest.mark.rule("BAT-3", "SEED-28", "SEQ-10")
def test_a_batch_of_one_key_goes_to_its_partition_in_order(
    bus: Bus, wire: Wire, queue: str
) -> None:
    key = keys_in(2, 4, 1)[0]
    sender = bus.sender(queue)
    batch = sender.create_message_batch()
    for message in messages(*[key] * 30):
        batch.add_message(message)
    sender.send_messages(batch)
    sender.send_messages(messages(*[key] * 30))
    received = wire.take(queue, 60)
    assert {partition_of(number_of(message)) for message in received} == {2}
    assert [int(bytes(message.body)) for message in received] == [*range(30), *range(30)]


@pytest.mark.rule("BAT-3", "SEED-28", "SEQ-10")
def test_a_batch_of_several_keys_is_split_by_partition(bus: Bus, wire: Wire, queue: str) -> None:
    first, second, third, _ = key_of_each(4)
    neighbour = keys_in(0, 4, 2)[1]
    keys = [first, second, None, third, neighbour] * 6
    bus.sender(queue).send_messages(messages(*keys))
    received = wire.take(queue, len(keys))
    by_key: dict[str | None, list[int]] = {}
    for message in received:
        by_key.setdefault(message.subject, []).append(int(bytes(message.body)))
        if message.subject is not None:
            assert partition_of(number_of(message)) == partition_of_key(message.subject, 4)
    for place, key in enumerate(keys[:5]):
        assert by_key[key] == list(range(place, len(keys), 5)), "the order of the batch"
    keyless = {partition_of(number_of(m)) for m in received if m.subject is None}
    assert len(keyless) == 1, "what has no key stays together"


@pytest.mark.rule("BAT-3", "CON-10", "ERR-13")
@pytest.mark.parametrize(
    ("keys", "named"),
    [(("red", "red", "green"), ("'red'", "'green'")), (("red", None), ("'red'", "none"))],
    ids=["two keys", "a key and none"],
)
def test_the_standard_tier_refuses_a_batch_of_several_keys(
    tier: ServerProcess, keys: tuple[str | None, ...], named: tuple[str, str]
) -> None:
    with ServiceBusClient.from_connection_string(tier.connection_string, retry_total=0) as client:
        sender = client.get_queue_sender("tier-0")
        with pytest.raises(ServiceBusError, match=r"SessionId or PartitionKey") as refusal:
            sender.send_messages(messages(*keys))
        assert all(name in str(refusal.value) for name in named)
        assert "amqp:not-allowed" in str(refusal.value)
    with Wire(tier) as wire:
        assert wire.peek("tier-0") == [], "nothing of it was stored"


@pytest.mark.rule("BAT-3")
def test_the_standard_tier_takes_batches_of_one_key(tier: ServerProcess) -> None:
    with ServiceBusClient.from_connection_string(tier.connection_string, retry_total=0) as client:
        sender = client.get_queue_sender("tier-1")
        sender.send_messages(messages("red", "red"))
        sender.send_messages([ServiceBusMessage("by session", session_id="red")] * 2)
        sender.send_messages(messages(None, None))
    with Wire(tier) as wire:
        received = wire.take("tier-1", 6)
    keyless = [message for message in received if not message.subject and not message.group_id]
    by_key = [message for message in received if message not in keyless]
    assert (len(keyless), len(by_key)) == (2, 4)
    assert {partition_of(number_of(m)) for m in by_key} == {partition_of_key("red", 16)}
    assert len({partition_of(number_of(m)) for m in keyless}) == 1


@pytest.mark.rule("BAT-2", "TXN-15")
def test_a_batch_with_one_bad_message_is_refused_whole(bus: Bus, wire: Wire, queue: str) -> None:
    torn = ServiceBusMessage("torn", session_id="one")
    torn.raw_amqp_message.annotations = {b"x-opt-partition-key": "other"}
    with pytest.raises(ServiceBusError, match="amqp:not-allowed"):
        bus.sender(queue).send_messages([*messages(*key_of_each(4)), torn])
    assert wire.peek(queue) == []


@pytest.mark.rule("BAT-2", "QTA-6")
def test_a_batch_is_no_larger_than_a_message_may_be(bus: Bus, tier: ServerProcess) -> None:
    assert bus.sender("four-0").create_message_batch().max_size_in_bytes == MEGABYTE
    with ServiceBusClient.from_connection_string(tier.connection_string) as client:
        sender = client.get_queue_sender("tier-2")
        assert sender.create_message_batch().max_size_in_bytes == MEGABYTE // 4
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages([ServiceBusMessage(b"x" * 100_000)] * 3)
