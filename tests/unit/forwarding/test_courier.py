"""Couriers over several processes, one step at a time: verdicts, order, and what crashes leave."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from partibus.domain.entity import EntityStatus, QueueSpec
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.commands import Enqueue, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Transfer
from partibus.message.envelope import to_stored
from partibus.store.interface import Ref
from support.gateway.messages import in_session, keyed, plain
from support.relays import Process, Relays

SHUT = EntityStatus.SEND_DISABLED


class Ear:
    """A sender that hears."""

    def __init__(self) -> None:
        self.confirmed_count = 0

    def confirmed(self, requests: Sequence[int], first: int, dropped: Sequence[int] = ()) -> None:
        self.confirmed_count += 1

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        raise AssertionError(error.text)


def relays(source: QueueSpec, there: QueueSpec | None = None, count: int = 2) -> Relays:
    """A queue 'there' in the first process, 'source' in the second."""
    bench = Relays(count)
    bench.create("there", there or QueueSpec())
    bench.create("source", source)
    bench.run()
    return bench


def stored(number: int, key: str | None = None) -> NewMessage:
    return to_stored(plain(number, 4) if key is None else keyed(number, key, 4))


def send(bench: Relays, *messages: NewMessage, path: str = "source") -> None:
    size = sum(len(message.body) for message in messages)
    fragment = bench.fragment(path, 0)
    fragment.submit(Enqueue(Ear(), list(messages), [0], size))


def transfer(bench: Relays, *messages: NewMessage, path: str = "there") -> None:
    size = sum(len(message.body) for message in messages)
    bench.fragment("source", 0).submit(Transfer(Ear(), list(messages), [0], size, path))


def tails(*numbers: int) -> list[bytes]:
    return [plain(number, 4)[-4:] for number in numbers]


def reasons(bench: Relays, subqueue: SubQueueType = SubQueueType.DEAD_LETTER) -> list[str | None]:
    held = bench.fragment("source", 0).machine.state.subqueues[subqueue].ready.copies(0)
    return [one.overlay.reason if one.overlay is not None else None for one in held]


def on_their_way(bench: Relays) -> int:
    return bench.fragment("source", 0).machine.state.counts().transfer


FORWARDS = QueueSpec(forward_to="there")


# --- handing over --------------------------------------------------------------------------------


def test_parcels_are_handed_over_and_leave_the_outbox() -> None:
    bench = relays(FORWARDS)
    send(bench, *map(stored, range(1, 6)))
    bench.run()
    assert bench.waiting("there", 0) == tails(1, 2, 3, 4, 5)
    state = bench.fragment("source", 0).machine.state
    assert (state.counts().transfer, state.size_bytes) == (0, 0)
    assert bench.owner("source", 0).store.live_bytes == 0


def test_a_batch_sent_before_a_crash_is_not_there_twice() -> None:
    bench = relays(FORWARDS)
    send(bench, stored(1), stored(2))
    source, there = bench.owner("source", 0), bench.owner("there", 0)
    while not bench.waiting("there", 0):
        source.steps.step()
        there.steps.step()
    assert on_their_way(bench) == 2
    source.kill(0)
    source.start()
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(1, 2)
    assert on_their_way(bench) == 0


def test_a_destination_that_is_down_is_waited_for() -> None:
    bench = relays(FORWARDS)
    there = bench.owner("there", 0)
    there.kill(0)
    send(bench, stored(1))
    bench.run()
    bench.clock.advance_ms(60_000)
    send(bench, stored(2))
    bench.run()
    assert on_their_way(bench) == 2
    there.start()
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(1, 2)


def test_the_destinations_fragments_do_not_wait_for_each_other() -> None:
    parted = QueueSpec(enable_partitioning=True, fragments=2)
    bench = Relays(3)
    bench.create("there", parted)
    bench.create("source", FORWARDS)
    bench.run()
    bench.owner("there", 0).store.fail()
    numbers = range(1, 21)
    send(bench, *[stored(number, f"key-{number}") for number in numbers])
    bench.settle_down()
    up = bench.waiting("there", 1)
    assert 0 < len(up) < 20
    assert on_their_way(bench) == 20 - len(up)
    bench.owner("there", 0).store.heal()
    bench.settle_down()
    down = bench.waiting("there", 0)
    assert sorted(up + down) == sorted(tails(*numbers))
    assert [up, down] == [sorted(up), sorted(down)]


def test_a_leg_that_waits_gives_its_memory_back() -> None:
    bench = relays(FORWARDS)
    bench.owner("there", 0).store.fail()
    for number in range(1, 60):
        send(bench, stored(number))
        bench.run()
    bench.clock.advance_ms(1000)
    bench.run()
    process = bench.owner("source", 0)
    (courier,) = [c for c in process.couriers._couriers.values() if c._legs]
    assert courier.buffered_bytes == 0
    bench.owner("there", 0).store.heal()
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(*range(1, 60))
    assert courier.buffered_bytes == 0


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.rule("FWD-7", "TDQ-2")
def test_a_destination_that_was_deleted() -> None:
    bench = relays(FORWARDS)
    bench.catalog.delete("there")
    send(bench, stored(1), stored(2))
    bench.run()
    assert reasons(bench) == ["EntityNotFound"] * 2
    assert on_their_way(bench) == 0
    bench.create("there", QueueSpec())
    send(bench, stored(3))
    bench.run()
    assert bench.waiting("there", 0) == tails(3)


@pytest.mark.rule("FWD-7")
def test_parcels_that_wait_for_a_destination_which_is_deleted_go_to_the_one_in_its_place() -> None:
    bench = relays(FORWARDS)
    bench.owner("there", 0).store.fail()
    send(bench, stored(1), stored(2))
    bench.run()
    bench.catalog.delete("there")
    bench.create("there", QueueSpec())
    bench.owner("there", 0).store.heal()
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(1, 2)
    assert on_their_way(bench) == 0


@pytest.mark.rule("TDQ-2", "TDQ-3", "CON-20")
@pytest.mark.parametrize("subqueue", [SubQueueType.DEAD_LETTER, SubQueueType.TRANSFER_DEAD_LETTER])
def test_where_forward_failures_go_is_a_setting(subqueue: SubQueueType) -> None:
    bench = Relays(2, forward_failures=subqueue)
    bench.create("there", QueueSpec(status=SHUT))
    bench.create("source", FORWARDS)
    send(bench, stored(1))
    bench.run()
    assert bench.waiting("source", 0, subqueue) == tails(1)
    assert reasons(bench, subqueue) == ["EntityDisabled"]


def test_a_message_that_is_refused_does_not_hold_up_the_next() -> None:
    bench = relays(FORWARDS, QueueSpec(requires_session=True))
    send(bench, to_stored(in_session(1, "s")), stored(2), to_stored(in_session(3, "s")))
    bench.run()
    state = bench.fragment("there", 0).machine.state
    assert state.counts().active == 2
    assert reasons(bench) == ["Session ID is null"]


def test_a_damaged_parcel_is_a_dead_letter_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = relays(FORWARDS)
    store = bench.owner("source", 0).store
    send(bench, stored(1), stored(2), stored(3))
    bench.owner("source", 0).steps.step()
    damaged = store._tail
    read_now = store.read_now
    bodies = sorted(store._bodies)

    def read(refs: list[Ref]) -> list[bytes] | None:
        if any(position == bodies[1] for position, _ in refs):
            raise StoreCorrupt("a body failed its checksum")
        return read_now(refs)

    monkeypatch.setattr(store, "read_now", read)
    bench.run()
    assert damaged
    assert bench.waiting("there", 0) == tails(1, 3)
    assert reasons(bench) == ["StoreCorrupt"]


# --- transfers -----------------------------------------------------------------------------------


@pytest.mark.rule("TDQ-1", "TDQ-2")
def test_a_transfer_to_a_disabled_destination_is_a_transfer_dead_letter() -> None:
    bench = relays(QueueSpec(), QueueSpec(status=SHUT))
    transfer(bench, stored(1))
    transfer(bench, stored(2), path="nowhere")
    bench.run()
    subqueue = SubQueueType.TRANSFER_DEAD_LETTER
    assert bench.waiting("source", 0, subqueue) == tails(1, 2)
    assert reasons(bench, subqueue) == ["EntityDisabled", "EntityNotFound"]


@pytest.mark.rule("TDQ-2")
def test_a_transfer_to_a_full_destination_stays_pending() -> None:
    bench = relays(QueueSpec(), QueueSpec(max_size_in_megabytes=1))
    large = to_stored(plain(1, 600_000))
    transfer(bench, large, to_stored(plain(2, 600_000)))
    bench.settle_down()
    assert len(bench.waiting("there", 0)) == 1
    assert on_their_way(bench) == 1
    assert reasons(bench, SubQueueType.TRANSFER_DEAD_LETTER) == []
    bench.update("there", QueueSpec(max_size_in_megabytes=2))
    bench.settle_down()
    assert bench.waiting("there", 0) == tails_of_large(1, 2)
    assert on_their_way(bench) == 0


def tails_of_large(*numbers: int) -> list[bytes]:
    return [plain(number, 600_000)[-4:] for number in numbers]


def test_transfers_do_not_follow_the_forwarding_of_their_entity() -> None:
    bench = relays(FORWARDS)
    bench.create("far", QueueSpec())
    transfer(bench, stored(1), path="far")
    send(bench, stored(2))
    bench.update("source", QueueSpec())
    bench.run()
    assert bench.waiting("far", 0) == tails(1)
    assert bench.waiting("source", 0) + bench.waiting("there", 0) == tails(2)


# --- changes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["", "other"])
def test_what_was_not_sent_follows_a_change(target: str) -> None:
    bench = relays(FORWARDS)
    bench.create("other", QueueSpec())
    bench.owner("there", 0).kill(0)
    send(bench, stored(1), stored(2))
    bench.run()
    bench.update("source", QueueSpec(forward_to=target))
    bench.owner("there", 0).start()
    bench.settle_down()
    assert bench.waiting(target or "source", 0) == tails(1, 2)
    assert bench.waiting("there", 0) == []


def kill_when_taken(bench: Relays) -> Process:
    """The source dies after the destination took the batch, before it could hear of it."""
    source, there = bench.owner("source", 0), bench.owner("there", 0)
    while not bench.waiting("there", 0):
        source.steps.step()
        there.steps.step()
    source.kill(0)
    return source


@pytest.mark.rule("TXN-17")
@pytest.mark.parametrize("spec", [QueueSpec(), replace(FORWARDS, forward_to="other")])
def test_what_was_taken_before_a_crash_does_not_come_back_by_a_change(spec: QueueSpec) -> None:
    bench = relays(FORWARDS)
    bench.create("other", QueueSpec())
    send(bench, stored(1))
    source = kill_when_taken(bench)
    bench.update("source", spec)
    source.start()
    bench.settle_down()
    assert bench.everything() == {tails(1)[0]: 1}
    assert bench.waiting("there", 0) == tails(1)


@pytest.mark.rule("TXN-17", "FWD-7")
def test_what_was_taken_before_a_crash_is_no_dead_letter_when_the_destination_is_shut() -> None:
    bench = relays(FORWARDS)
    send(bench, stored(1))
    source = kill_when_taken(bench)
    bench.update("there", QueueSpec(status=SHUT))
    source.start()
    send(bench, stored(2))
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(1)
    assert bench.waiting("source", 0, SubQueueType.DEAD_LETTER) == tails(2)


@pytest.mark.rule("TXN-17")
def test_a_batch_that_arrives_after_its_parcels_were_fenced_is_refused() -> None:
    bench = relays(FORWARDS)
    source, there = bench.owner("source", 0), bench.owner("there", 0)
    send(bench, stored(1))
    while not source.under_way:
        source.steps.step()
    source.kill(0)
    assert bench.late
    bench.update("source", QueueSpec())
    source.start()
    for _ in range(100):
        source.steps.step()
        there.steps.step()
    assert bench.waiting("source", 0) == tails(1)
    bench.settle_down()
    assert bench.everything() == {tails(1)[0]: 1}


@pytest.mark.rule("TXN-17")
def test_a_crash_between_fence_and_verdict_loses_nothing() -> None:
    bench = relays(FORWARDS)
    source, there = bench.owner("source", 0), bench.owner("there", 0)
    send(bench, stored(1), stored(2))
    while not source.under_way:
        source.steps.step()
    source.kill(0)
    bench.late.clear()
    bench.update("there", QueueSpec(status=SHUT))
    source.start()
    origin = bench.fragment("source", 0).fragment_id
    marks = bench.fragment("there", 0).machine.state.marks
    while not marks.of(origin).fenced:
        source.steps.step()
        there.steps.step()
    there.steps.step()
    source.kill(0)
    bench.update("there", QueueSpec())
    source.start()
    bench.settle_down()
    assert bench.waiting("there", 0) == tails(1, 2)
    assert on_their_way(bench) == 0


def test_a_verdict_that_the_store_refused_is_given_again() -> None:
    bench = relays(FORWARDS, QueueSpec(status=SHUT))
    source = bench.owner("source", 0)
    send(bench, stored(1))
    while not on_their_way(bench):
        source.steps.step()
    source.store.fail()
    bench.settle_down()
    assert on_their_way(bench) == 1
    source.store.heal()
    bench.settle_down()
    assert bench.waiting("source", 0, SubQueueType.DEAD_LETTER) == tails(1)


def test_an_outbox_that_could_not_be_told_is_told_again() -> None:
    bench = relays(FORWARDS)
    source, there = bench.owner("source", 0), bench.owner("there", 0)
    send(bench, stored(1))
    while not bench.waiting("there", 0):
        source.steps.step()
        there.steps.step()
    source.store.fail()
    bench.settle_down()
    assert on_their_way(bench) == 1
    source.store.heal()
    bench.settle_down()
    assert on_their_way(bench) == 0
    assert bench.waiting("there", 0) == tails(1)


def test_a_stopped_courier_begins_nothing() -> None:
    bench = relays(FORWARDS)
    bench.owner("source", 0).couriers.stop()
    send(bench, stored(1))
    bench.settle_down()
    assert on_their_way(bench) == 1
