"""Without a key: round robin over all partitions, from a random start."""

import asyncio
from collections import Counter

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from proton import Message

from conformance.partitioning.namespace import PARTITIONS, Queues
from conformance.partitioning.partitions import counter_of, partition_of, spread
from conformance.partitioning.wire import Wire, number_of
from conformance.settlement.bus import Bus
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

SCRIPT = "../partitioning/js/partitioning.mjs"
PARTITIONS_OF_THE_SERVICE = PARTITIONS["spread"]
MANY = 16_000


def assert_even(shares: Counter[int], partitions: int) -> None:
    """Within one in a hundred of even."""
    even = shares.total() / partitions
    assert sorted(shares) == list(range(partitions))
    assert max(abs(share - even) for share in shares.values()) <= even / 100, shares


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-19", "SEED-26", "SEED-39", "CON-4", "CON-5")
def test_sixteen_thousand_messages_of_the_javascript_client_are_spread_evenly(
    server: ServerProcess, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    scenario(
        SCRIPT, "spread", connection=server.connection_string, queue=queue, count=MANY, window=1000
    )
    numbers = [number_of(message) for message in wire.take(queue, MANY)]
    assert_even(spread(numbers), PARTITIONS_OF_THE_SERVICE)


@pytest.mark.rule("SEED-39", "CON-5", "SEED-7", "SEQ-2", "SEQ-4", "SEED-14")
def test_messages_of_five_senders_are_spread_evenly_and_numbered(
    wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    links = [wire.sender(queue).link for _ in range(5)]
    total = 4800
    bodies = iter(range(total))
    pending = []
    for _ in range(total // 100):
        for link in links:
            pending += wire.pipeline(link, (Message(body=next(bodies)) for _ in range(20)))
    wire.await_answers(pending)
    messages = wire.take(queue, total)
    assert {message.body for message in messages} == set(range(total)), "each came once"
    numbers = [number_of(message) for message in messages]
    assert_even(spread(numbers), PARTITIONS_OF_THE_SERVICE)
    # In the lower bits every partition counts for itself, without gaps.
    for partition in range(PARTITIONS_OF_THE_SERVICE):
        own = sorted(counter_of(n) for n in numbers if partition_of(n) == partition)
        assert own == list(range(own[0], own[0] + len(own)))


@pytest.mark.rule("SEED-39", "SEED-75")
async def test_the_asynchronous_python_client_spreads_evenly(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")

    async def send() -> None:
        async with async_client.get_queue_sender(queue) as sender:
            await asyncio.gather(
                *(sender.send_messages(ServiceBusMessage("keyless")) for _ in range(160))
            )

    await asyncio.gather(send(), send(), send())
    shares = spread(number_of(message) for message in wire.take(queue, 480))
    assert_even(shares, PARTITIONS_OF_THE_SERVICE)


@pytest.mark.rule("SEED-39")
@pytest.mark.parametrize("kind", ["four", "seven"])
def test_any_number_of_partitions_takes_turns(wire: Wire, queues: Queues, kind: str) -> None:
    queue = queues.fresh(kind)
    partitions = PARTITIONS[kind]
    wire.send(queue, *range(3 * partitions))
    messages = sorted(wire.take(queue, 3 * partitions), key=lambda message: message.body)
    order = [partition_of(number_of(message)) for message in messages]
    start = order[0]
    assert order == [(start + turn) % partitions for turn in range(3 * partitions)]


@pytest.mark.rule("CON-5")
def test_every_sender_begins_at_a_partition_of_its_own(wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    for number in range(24):
        wire.send(queue, number)
    # That 24 senders all begin at one of two partitions happens once in 8^22 times.
    assert len(set(wire.partitions(queue))) > 2


@pytest.mark.rule("SEED-37")
def test_a_message_id_is_no_key_without_duplicate_detection(
    bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    for _ in range(8):
        sender.send_messages(ServiceBusMessage("copy", message_id="the-same"))
    assert_even(Counter(wire.partitions(queue)), 4)
    assert {message.id for message in wire.take(queue, 8)} == {"the-same"}


@pytest.mark.rule("SEED-38")
def test_a_message_without_an_id_gets_one_and_is_spread_all_the_same(
    wire: Wire, queue: str
) -> None:
    wire.fill(queue, (Message(body=number) for number in range(40)))
    messages = wire.take(queue, 40)
    assert len({message.id for message in messages}) == 40
    assert all(message.id for message in messages)
    assert_even(spread(map(number_of, messages)), 4)
