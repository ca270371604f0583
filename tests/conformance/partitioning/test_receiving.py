"""Receiving from partitioned queues: from all partitions, within the credit, starving none."""

import asyncio
import itertools
from collections import Counter

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus.aio import ServiceBusClient
from proton import Delivery, Message
from proton.reactor import AtMostOnce

from conformance.partitioning.namespace import PARTITIONS, Queues
from conformance.partitioning.partitions import key_of_each, keys_in, partition_of
from conformance.partitioning.wire import Wire, keyed, number_of, text
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from support.javascript import scenario
from support.receiving import bodies, collect, collect_async
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

SCRIPT = "../partitioning/js/partitioning.mjs"
# Longer than a test may last: who waits for it never passes.
FOREVER_SECONDS = 3600


@pytest.mark.rule("SEED-3", "SEED-8", "SEED-9", "SEED-64", "SEED-73", "SEED-75")
def test_one_receiver_gets_the_messages_of_all_partitions(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(48)))
    receiver = bus.receiver(queue)
    messages = collect(receiver, 48)
    assert sorted(map(int, bodies(messages))) == list(range(48))
    assert {partition_of(m.sequence_number or 0) for m in messages} == set(range(16))
    for message in messages:
        receiver.complete_message(message)
    assert wire.peek(queue) == []


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-8", "SEED-75")
def test_the_javascript_client_receives_and_completes(
    server: ServerProcess, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (Message(body=number) for number in range(32)))
    messages = scenario(
        SCRIPT, "complete", connection=server.connection_string, queue=queue, count=32
    )
    assert sorted(message["body"] for message in messages) == list(range(32))
    assert wire.peek(queue) == []


@pytest.mark.rule("CON-16", "PAV-7", "SEED-63", "SEED-8")
def test_a_receive_finds_a_lone_message_in_whichever_partition_it_lies(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    receiver = bus.receiver(queue)
    for partition, key in enumerate(key_of_each(PARTITIONS["spread"])):
        wire.send(queue, keyed(key, key))
        (message,) = receiver.receive_messages(max_message_count=10, max_wait_time=30)
        assert (str(message), partition_of(message.sequence_number or 0)) == (key, partition)
        receiver.complete_message(message)


@pytest.mark.rule("CON-16", "PAV-7")
def test_a_drain_finds_a_lone_message_in_whichever_partition_it_lies(
    wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    for partition, key in enumerate(key_of_each(PARTITIONS["spread"])):
        wire.send(queue, keyed(key, key))
        receiver = wire.receiver(queue)
        receiver.link.drain(3)
        wire.wait(lambda link=receiver.link: link.credit == 0, "the answer to drain")
        assert receiver.arrived == 1, f"partition {partition} was not asked"
        ((_, delivery),) = receiver.wait_for(1)
        receiver.settle(delivery, Delivery.ACCEPTED)
        receiver.close()


@pytest.mark.rule("CON-16", "PAV-7")
def test_receivers_that_have_been_waiting_hear_of_every_partition(
    wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    receiver = wire.receiver(queue, credit=100)
    wire.round_trip(queue)
    for key in key_of_each(PARTITIONS["spread"]):
        wire.send(queue, keyed(key, key))
        ((message, _),) = receiver.wait_for(1)
        assert text(message) == key


@pytest.mark.rule("PRE-1", "PRE-5")
@pytest.mark.parametrize("credit", [1, 3, 16, 20, 64])
def test_no_more_than_the_credit_is_delivered(wire: Wire, queues: Queues, credit: int) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(160)))
    receiver = wire.receiver(queue)
    for _ in range(2):
        receiver.link.flow(credit)
        receiver.wait_for(credit)
        wire.round_trip(queue)
        assert receiver.arrived == 0
        assert receiver.link.credit == 0
    other = wire.receiver(queue, credit=160)
    assert len(other.wait_for(160 - 2 * credit)) == 160 - 2 * credit, "nothing was held back"


@pytest.mark.rule("PRE-1", "PRE-5", "SEED-9")
def test_credit_given_bit_by_bit_is_never_exceeded(wire: Wire, queues: Queues) -> None:
    """More credit while messages are on their way: what is out is never granted twice."""
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(300)))
    receiver = wire.receiver(queue)
    granted = 0
    for step in itertools.islice(itertools.cycle((1, 2, 5, 3, 13)), 40):
        receiver.link.flow(step)
        before, granted = granted, granted + step
        wire.wait(lambda least=before: receiver.arrived > least, "the first of this step")
    wire.wait(lambda: receiver.arrived == granted, "all that was granted")
    wire.round_trip(queue)
    assert receiver.arrived == granted
    assert len({text(message) for message, _ in receiver.wait_for(granted)}) == granted


@pytest.mark.rule("PRE-1", "PRE-5", "PAV-7")
def test_without_prefetch_the_stock_client_leaves_the_rest_to_others(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(32)))
    receiver = bus.receiver(queue)
    collect(receiver, 1)
    others = wire.receiver(queue, credit=32)
    assert len(others.wait_for(31)) == 31


@pytest.mark.rule("PRE-1", "PRE-5")
async def test_with_prefetch_the_stock_client_gets_as_many_and_no_more(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(64)))
    async with async_client.get_queue_receiver(queue, prefetch_count=20) as receiver:
        first = await collect_async(receiver, 20)
        # Meanwhile the client asked for as many again as it took: it holds at most 40.
        others = wire.receiver(queue)
        others.link.drain(64)
        wire.wait(lambda: others.link.credit == 0, "the answer to drain")
        assert others.arrived >= 24
        assert len(first) == 20


@pytest.mark.rule("BAT-5", "SEED-8")
def test_a_receive_of_many_waits_for_the_first_only(bus: Bus, wire: Wire, queue: str) -> None:
    wire.send(queue, keyed("lone", keys_in(3, 4, 1)[0]))
    receiver = bus.receiver(queue)
    (message,) = receiver.receive_messages(max_message_count=50, max_wait_time=FOREVER_SECONDS)
    assert str(message) == "lone"


@pytest.mark.rule("BAT-5", "SEED-76")
def test_a_receive_of_many_gives_no_more_than_asked_for(bus: Bus, wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    received = bus.receiver(queue).receive_messages(max_message_count=10, max_wait_time=30)
    assert 1 <= len(received) <= 10


@pytest.mark.rule("SEED-8", "SEED-66")
async def test_competing_receivers_share_all_messages_and_get_none_twice(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    total = 400
    wire.fill(queue, (keyed(str(number)) for number in range(total)))
    received: list[str] = []
    done = asyncio.Event()

    async def receive(prefetch: int) -> None:
        async with async_client.get_queue_receiver(queue, prefetch_count=prefetch) as receiver:
            while not done.is_set():
                for message in await receiver.receive_messages(20, max_wait_time=0.3):
                    await receiver.complete_message(message)
                    received.append(str(message))
                if len(received) >= total:
                    done.set()

    await asyncio.gather(receive(0), receive(0), receive(10), receive(50))
    assert sorted(map(int, received)) == list(range(total))
    assert wire.peek(queue) == []


@pytest.mark.rule("SEED-8", "CON-16")
def test_two_waiting_receivers_take_all_that_comes(wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    receivers = [wire.receiver(queue, credit=20) for _ in range(2)]
    wire.round_trip(queue)
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    wire.wait(lambda: sum(r.arrived for r in receivers) == 40, "both to be full")
    got = [text(message) for r in receivers for message, _ in r.wait_for(20)]
    assert sorted(map(int, got)) == list(range(40))


@pytest.mark.rule("SEED-8", "PAV-7")
def test_a_deep_partition_does_not_starve_the_others(wire: Wire, queue: str) -> None:
    deep, *shallow = key_of_each(4)
    wire.fill(queue, (keyed("deep", deep) for _ in range(2000)))
    wire.fill(queue, (keyed(key, key) for key in shallow * 5))
    receiver = wire.receiver(queue)
    seen: Counter[str] = Counter()
    for _ in range(10):
        receiver.link.flow(8)
        for message, delivery in receiver.wait_for(8):
            seen[text(message)] += 1
            delivery.update(Delivery.ACCEPTED)
    assert {key: seen[key] for key in shallow} == dict.fromkeys(shallow, 5), seen


@pytest.mark.rule("SEED-8", "PAV-7")
def test_one_by_one_every_partition_has_its_turn(wire: Wire, queue: str) -> None:
    deep, *shallow = key_of_each(4)
    wire.fill(queue, (keyed("deep", deep) for _ in range(500)))
    wire.fill(queue, (keyed(key, key) for key in shallow))
    receiver = wire.receiver(queue)
    seen = []
    for _ in range(12):
        receiver.link.flow(1)
        ((message, _),) = receiver.wait_for(1)
        seen.append(text(message))
    assert set(shallow) <= set(seen), seen


@pytest.mark.rule("SEED-41", "CON-11", "SEQ-9")
def test_without_a_key_a_message_may_be_overtaken(wire: Wire, queue: str) -> None:
    """The order is that of each partition alone, and one of them has much before it."""
    wire.fill(queue, (keyed("before", keys_in(0, 4, 1)[0]) for _ in range(30)))
    wire.send(queue, *(str(number) for number in range(8)))
    receiver = wire.receiver(queue)
    received = []
    for _ in range(38):
        receiver.link.flow(1)
        ((message, _),) = receiver.wait_for(1)
        received.append((partition_of(number_of(message)), text(message)))
    keyless = [(partition, int(body)) for partition, body in received if body != "before"]
    numbers = [number for _, number in keyless]
    assert sorted(numbers) == list(range(8))
    assert numbers != list(range(8)), "a guarantee that nobody gives"
    for partition in range(4):
        own = [number for place, number in keyless if place == partition]
        assert own == sorted(own), "each partition in its order"


@pytest.mark.rule("SEED-67")
def test_when_all_is_locked_elsewhere_a_receive_is_empty_and_no_error(
    bus: Bus, wire: Wire, queue: str
) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(8)))
    holder = wire.receiver(queue, credit=8)
    holder.wait_for(8)
    with bus.receiver(queue) as receiver:
        assert receiver.receive_messages(max_message_count=8, max_wait_time=0.2) == []


@pytest.mark.rule("SEED-68", "SEED-97", "SEED-8")
def test_when_the_locks_run_out_the_messages_of_all_partitions_come_again(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("brief")  # a lock of a second
    wire.fill(queue, (keyed(str(number)) for number in range(8)))
    wire.receiver(queue, credit=8).wait_for(8)
    messages = collect(bus.receiver(queue), 8)
    assert sorted(map(int, bodies(messages))) == list(range(8))
    assert {message.delivery_count for message in messages} == {1}


@pytest.mark.rule("SEED-93", "PRE-3", "PRE-5")
def test_receive_and_delete_takes_what_is_granted_and_no_more(wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(64)))
    with Wire(wire.server) as crashing:
        receiver = crashing.receiver(queue, credit=24, option=AtMostOnce())
        crashing.wait(lambda: receiver.arrived == 24, "the granted messages")
    # It ends without having looked at one of them: they are gone all the same.
    assert len(wire.peek(queue)) == 40
    assert len(wire.take(queue, 40)) == 40


@pytest.mark.rule("SEED-93")
def test_the_stock_client_receives_and_deletes_from_all_partitions(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(48)))
    receiver = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    assert sorted(map(int, bodies(collect(receiver, 48)))) == list(range(48))
    assert wire.peek(queue) == []


@pytest.mark.rule("PRE-2", "DLV-2", "DLQ-6", "PRE-1")
def test_locks_that_lapse_in_the_buffer_count_until_the_messages_are_given_up(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("fragile")  # a lock of a second, two deliveries
    wire.fill(queue, (keyed(str(number)) for number in range(4)))
    wire.receiver(queue, credit=100)  # a buffer that nobody reads
    wire.round_trip(queue)
    letters = collect(bus.dead_letters(queue), 4)
    assert sorted(map(int, bodies(letters))) == list(range(4))
    assert {letter.dead_letter_reason for letter in letters} == {"MaxDeliveryCountExceeded"}
    assert {partition_of(letter.sequence_number or 0) for letter in letters} == {0, 1, 2, 3}


@pytest.mark.rule("PRE-4", "SEED-100")
def test_what_is_abandoned_comes_again_behind_what_is_in_the_buffer(wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number), "one") for number in range(6)))
    receiver = wire.receiver(queue, credit=7)
    first, *rest = receiver.wait_for(6)
    receiver.settle(first[1], Delivery.MODIFIED)
    ((again, _),) = receiver.wait_for(1)
    assert text(again) == text(first[0]) == "0"
    assert [text(message) for message, _ in rest] == ["1", "2", "3", "4", "5"]


@pytest.mark.rule("CON-15", "CON-11", "SEQ-8")
def test_what_is_released_goes_back_to_its_place_in_its_partition(wire: Wire, queue: str) -> None:
    for key in key_of_each(4):
        wire.send(queue, *(keyed(str(number), key) for number in range(4)))
    receiver = wire.receiver(queue, credit=12)
    held = receiver.wait_for(12)
    for _, delivery in reversed(held):
        receiver.settle(delivery, Delivery.RELEASED)
    received: dict[int, list[str]] = {}
    for message in wire.take(queue, 16):
        received.setdefault(partition_of(number_of(message)), []).append(text(message))
    assert received == {partition: ["0", "1", "2", "3"] for partition in range(4)}


@pytest.mark.rule("SEED-96", "SEED-99")
def test_one_disposition_settles_messages_of_all_partitions(wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(48)))
    receiver = wire.receiver(queue, credit=48)
    deliveries = [delivery for _, delivery in receiver.wait_for(48)]
    for delivery in deliveries:  # written together, so they travel as one range
        delivery.update(Delivery.ACCEPTED)
    wire.await_answers(deliveries)
    assert {delivery.remote_state for delivery in deliveries} == {Delivery.ACCEPTED}
    assert wire.peek(queue) == []
