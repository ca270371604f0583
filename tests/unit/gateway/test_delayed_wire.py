"""Bytes that arrive later: order, close, abort, and the cost model of distance."""

import pytest

from partibus.amqp.events import DispositionReceived
from partibus.amqp.link import Link
from partibus.gateway.delayed_wire import WAITING_BYTES_MAX, DelayedWire
from partibus.gateway.fault_injection import ClientFaults
from partibus.testing.bus import BusBench, ClientBench
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler
from support.gateway.messages import plain

RTT_MS = 70
STORE_MS = 10
SENDS = 100


class RecordingWire:
    peer = "client:1"
    secure = True
    is_websocket = False

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def linger(self) -> None:
        self.calls.append("linger")

    def resume_reading(self) -> None:
        self.calls.append("resume")


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.faults = ClientFaults()
        self.wire = RecordingWire()
        self.delayed = DelayedWire(self.wire, self.faults, self.scheduler, self.clock.now_ms)


def test_without_a_delay_everything_passes_at_once() -> None:
    bench = Bench()
    bench.delayed.write(b"a")
    bench.delayed.pause_reading()
    bench.delayed.resume_reading()
    bench.delayed.close()
    assert bench.wire.calls == [b"a", "pause", "resume", "close"]
    assert (bench.delayed.peer, bench.delayed.secure) == ("client:1", True)


def test_what_is_written_leaves_later_and_in_order() -> None:
    bench = Bench()
    bench.faults.rtt_ms = 70
    bench.delayed.write(b"a")
    bench.scheduler.advance_ms(30)
    bench.delayed.write(b"b")
    bench.scheduler.advance_ms(39)
    assert bench.wire.calls == []
    bench.scheduler.advance_ms(2)
    assert bench.wire.calls == [b"a"]
    bench.scheduler.advance_ms(30)
    assert bench.wire.calls == [b"a", b"b"]


def test_order_is_kept_when_the_delay_ends() -> None:
    bench = Bench()
    bench.faults.rtt_ms = 70
    bench.delayed.write(b"a")
    bench.faults.rtt_ms = 0
    bench.delayed.write(b"b")
    assert bench.wire.calls == []
    bench.scheduler.advance_ms(71)
    assert bench.wire.calls == [b"a", b"b"]
    bench.delayed.write(b"c")
    assert bench.wire.calls == [b"a", b"b", b"c"]


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    bench = Bench()
    set_back_ms = 0
    wire = DelayedWire(
        bench.wire, bench.faults, bench.scheduler, lambda: bench.clock.now_ms() - set_back_ms
    )
    bench.faults.rtt_ms = 70
    wire.write(b"a")
    set_back_ms = 3_600_000
    bench.scheduler.advance_ms(71)
    assert bench.wire.calls == [b"a"]


def test_a_close_waits_for_what_was_written() -> None:
    bench = Bench()
    bench.faults.rtt_ms = 70
    bench.delayed.write(b"goodbye")
    bench.delayed.close()
    assert bench.wire.calls == []
    bench.scheduler.advance_ms(100)
    assert bench.wire.calls == [b"goodbye", "close"]


def test_an_abort_drops_what_waits() -> None:
    bench = Bench()
    bench.faults.rtt_ms = 70
    bench.delayed.write(b"never")
    bench.delayed.abort()
    bench.scheduler.advance_ms(100)
    assert bench.wire.calls == ["abort"]


def test_what_waits_is_bounded() -> None:
    bench = Bench()
    bench.faults.rtt_ms = 70
    block = bytes(WAITING_BYTES_MAX // 2)
    bench.delayed.write(block)
    bench.delayed.write(block)
    assert bench.wire.calls == []
    bench.delayed.write(b"one more")
    assert bench.wire.calls == [block]


# --- SEED-88, in virtual time: no machine is too slow for it -------------------------------------


def confirmed(client: ClientBench) -> int:
    events = client.take(DispositionReceived)
    return sum(len(e.deliveries) for e in events if isinstance(e, DispositionReceived))


def wait_for(bus: BusBench, client: ClientBench, count: int) -> None:
    """Let time pass until so many sends are confirmed."""
    seen = confirmed(client)
    while seen < count:
        bus.scheduler.advance_ms(1)
        client.run()
        seen += confirmed(client)


def far_away() -> tuple[BusBench, ClientBench, Link]:
    """A sender that is 70 ms away from a bus whose store takes 10 ms for a commit."""
    bus = BusBench(faults=True)
    assert bus.faults is not None
    bus.queue("q")
    client = bus.client()
    sender = client.attach("q", sends=True)
    bus.faults.rtt_ms = RTT_MS
    bus.store_faults[0].delay(STORE_MS)
    return bus, client, sender


@pytest.mark.rule("SEED-88")
def test_sends_awaited_one_by_one_pay_the_distance_each_time() -> None:
    bus, client, sender = far_away()
    began_ms = bus.clock.now_ms()
    for number in range(SENDS):
        client.send(sender, [plain(number)])
        wait_for(bus, client, 1)
    assert bus.clock.now_ms() - began_ms >= SENDS * (RTT_MS + STORE_MS) == 8_000


@pytest.mark.rule("SEED-88")
def test_overlapped_sends_pay_the_distance_once() -> None:
    bus, client, sender = far_away()
    began_ms = bus.clock.now_ms()
    client.send(sender, [plain(number) for number in range(SENDS)])
    wait_for(bus, client, SENDS)
    elapsed_ms = bus.clock.now_ms() - began_ms
    round_trips = elapsed_ms / (RTT_MS + STORE_MS)
    assert 1 <= round_trips < 2


def test_a_lingering_end_comes_after_what_was_written() -> None:
    bench = Bench()
    bench.faults.rtt_ms = RTT_MS
    bench.delayed.write(b"last")
    bench.delayed.linger()
    assert bench.wire.calls == []
    bench.scheduler.advance_ms(RTT_MS + 1)
    assert bench.wire.calls == [b"last", "linger"]
