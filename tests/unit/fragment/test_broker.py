"""The broker's turn: one entry for all that arrived, and faults that stay where they are."""

from collections.abc import Sequence

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.fragment.broker import READ_RETRY_MS, Broker
from partibus.fragment.commands import Command, Consumer, Demand, Enqueue, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.store.record import Record
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import FragmentBench, Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

SPEC = FragmentSpec(lock_duration_ms=1_000, max_delivery_count=3)


class Broken(Ports):
    """A port whose owner has a bug."""

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        raise RuntimeError("broken")


def test_an_answer_that_fails_does_not_keep_the_others_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = FragmentBench(SPEC)
    for port in (Broken(), bench.ports):
        command = Enqueue(port, [NewMessage(b"x", -1)], [1], 1)
        bench.broker.submit(bench.machine, command)
    bench.run()
    assert bench.ports.confirmations == [1]
    assert "an answer could not be delivered" in caplog.text


def test_what_arrived_together_is_one_entry_over_all_fragments() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    entries: list[list[Record]] = []

    class Watched(MemoryStore):
        def append(self, records: list[Record], done: object) -> None:
            entries.append(records)
            super().append(records, done)  # type: ignore[arg-type]

    broker = Broker(Watched(notify=scheduler.call_soon), clock, scheduler)
    broker.open()
    ports = Ports()
    for fragment_id in (1, 2, 3):
        machine = broker.add(fragment_id, SPEC)
        broker.submit(machine, Enqueue(ports, [NewMessage(b"x", -1)], [fragment_id], 1))
    scheduler.run()
    assert [[record.fragment for record in entry] for entry in entries] == [[1, 2, 3]]
    assert ports.confirmations == [1, 2, 3]


def test_a_machine_that_fails_is_reported_as_a_fault() -> None:
    faults: list[Exception] = []
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    store = MemoryStore(notify=scheduler.call_soon)
    broker = Broker(store, clock, scheduler, faults.append)
    broker.open()
    # The root of all commands is itself one that no machine knows.
    broker.submit(broker.add(1, SPEC), Command())
    with pytest.raises(KeyError):
        scheduler.run()
    assert len(faults) == 1


def test_a_read_that_must_wait_keeps_the_order_of_answers() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)

    class Cold(MemoryStore):
        def read_now(self, refs: list[tuple[int, int]]) -> list[bytes] | None:
            return None

        def read(self, refs: list[tuple[int, int]], done: object) -> None:
            answer: list[bytes] | BusError = MemoryStore.read_now(self, refs) or []
            scheduler.call_soon(lambda: done(answer))  # type: ignore[operator]

    bench = FragmentBench(SPEC, Cold(notify=scheduler.call_soon, replayable=True))
    bench.scheduler = scheduler
    bench.start()
    bench.send(*[b"%d" % n for n in range(5)])
    inbox, consumer = bench.receiver()
    bench.demand(consumer, 2)
    bench.demand(consumer, 3, drain=True)
    assert [m.body for m in inbox.messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert inbox.drained_count == 1


def test_a_store_that_cannot_read_is_asked_again_later_not_in_a_loop() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    reads = 0

    class Unreadable(MemoryStore):
        is_broken = True

        def read_now(self, refs: list[tuple[int, int]]) -> list[bytes] | None:
            nonlocal reads
            reads += 1
            if self.is_broken:
                raise StoreUnavailable
            return super().read_now(refs)

    store = Unreadable(notify=scheduler.call_soon)
    broker = Broker(store, clock, scheduler)
    broker.open()
    machine = broker.add(1, SPEC)
    broker.submit(machine, Enqueue(Ports(), [NewMessage(b"x", -1)], [1], 1))
    inbox = Inbox()
    broker.submit(machine, Demand(Consumer(1, inbox, SubQueueType.MAIN, False), 1, False))
    scheduler.run()
    assert reads == 1
    scheduler.advance_ms(READ_RETRY_MS)
    assert reads == 2 and inbox.messages == []
    store.is_broken = False
    scheduler.advance_ms(READ_RETRY_MS)
    assert [message.body for message in inbox.messages] == [b"x"]
    assert inbox.messages[0].delivery_count == 0


@pytest.mark.parametrize("error", [StoreUnavailable, StoreCorrupt])
def test_a_consumed_message_that_cannot_be_read_takes_no_room(error: type[BusError]) -> None:
    """It is gone, so nobody will ever read it: its bytes must not stay live until a restart."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock)

    class Unreadable(MemoryStore):
        def read_now(self, refs: list[tuple[int, int]]) -> list[bytes] | None:
            raise error

    store = Unreadable(notify=scheduler.call_soon)
    broker = Broker(store, clock, scheduler)
    broker.open()
    machine = broker.add(1, SPEC)
    messages = [NewMessage(b"x", -1), NewMessage(b"y", -1)]
    broker.submit(machine, Enqueue(Ports(), messages, [1, 2], 2))
    broker.submit(machine, Demand(Consumer(1, Inbox(), SubQueueType.MAIN, True), 2, False))
    scheduler.run()
    assert machine.state.counts().active == 0
    assert store.live_bytes == 0
