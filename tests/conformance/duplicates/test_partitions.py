"""Duplicate detection on partitioned queues: the id as a key, and the key in the identity."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus.exceptions import ServiceBusError

from conformance.duplicates.letters import letter, shown, shown_ids
from conformance.duplicates.namespace import PARTITIONS, Queues
from conformance.partitioning.partitions import partition_of, partition_of_key, spread
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

NAMES = [f"order-{number}" for number in range(40)]


@pytest.fixture
def queue(queues: Queues) -> str:
    return queues.fresh("parted")


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with the profile of the Standard tier."""
    properties = {"requires_duplicate_detection": "true", "enable_partitioning": "true"}
    config = write_queues(tmp_path / "namespace.toml", {"parted": properties})
    with ServerProcess(tmp_path, config, "--profile", "standard") as process:
        yield process


@pytest.mark.rule("SEED-35", "SEED-36", "SEED-26")
def test_without_another_key_the_id_selects_the_partition(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    for name in NAMES:
        sender.send_messages(letter(name))
    for message in shown(bus, queue):
        assert message.message_id is not None and message.sequence_number is not None
        expected = partition_of_key(message.message_id, PARTITIONS)
        assert partition_of(message.sequence_number) == expected
    for name in NAMES:
        sender.send_messages(letter(name))
    assert sorted(shown_ids(bus, queue)) == sorted(NAMES)  # type: ignore[type-var]


@pytest.mark.rule("SEED-37", "SEED-39")
def test_where_duplicates_are_not_detected_the_id_is_no_key(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("parted-plain")
    sender = bus.sender(queue)
    for _ in range(2 * PARTITIONS):
        sender.send_messages(letter("same"))
    numbers = [m.sequence_number for m in shown(bus, queue) if m.sequence_number is not None]
    assert spread(numbers) == dict.fromkeys(range(PARTITIONS), 2)


@pytest.mark.rule("DUP-3")
def test_the_partition_key_belongs_to_the_identity(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    for fields in (
        {"partition_key": "red"},
        {"partition_key": "green"},
        {"partition_key": "red"},
        {"session_id": "green", "partition_key": "green"},
        {"session_id": "blue"},
        {"session_id": "blue"},
        {},
        {},
    ):
        sender.send_messages(letter("a", **fields))
    keys = sorted(m.session_id or m.partition_key or "" for m in shown(bus, queue))
    assert keys == ["", "blue", "green", "red"]


@pytest.mark.rule("DUP-3")
def test_without_partitions_the_id_alone_is_the_identity(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh()
    sender = bus.sender(queue)
    for fields in ({"partition_key": "red"}, {"partition_key": "green"}, {"session_id": "s"}, {}):
        sender.send_messages(letter("a", **fields))
    assert [message.partition_key for message in shown(bus, queue)] == ["red"]


@pytest.mark.rule("DUP-8", "BAT-3")
def test_a_batch_of_several_ids_is_split_and_its_duplicates_dropped(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    sender.send_messages([letter(name) for name in NAMES[:30]])
    sender.send_messages([letter(name) for name in NAMES])
    assert sorted(shown_ids(bus, queue)) == sorted(NAMES)  # type: ignore[type-var]


@pytest.mark.rule("DUP-8", "BAT-3", "SEED-35")
def test_the_standard_tier_refuses_a_batch_of_several_ids(tier: ServerProcess) -> None:
    bus = Bus(tier.connection_string)
    with bus.client, bus.sender("parted") as sender:
        with pytest.raises(ServiceBusError, match="MessageId") as refusal:
            sender.send_messages([letter("a"), letter("b")])
        assert "amqp:not-allowed" in str(refusal.value)
        sender.send_messages([letter("a"), letter("a")])
        sender.send_messages([letter("b", session_id="s"), letter("c", session_id="s")])
        with pytest.raises(ServiceBusError, match="MessageId"):
            # The client gives each of them an id of its own (SEED-38).
            sender.send_messages([letter(None), letter(None)])
        assert sorted(str(found) for found in shown_ids(bus, "parted")) == ["a", "b", "c"]
