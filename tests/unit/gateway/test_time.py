"""Time as clients see it: heartbeats that come in time, and a clock that is set."""

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import encode_annotations
from partibus.amqp.codec.types import Symbol, Timestamp
from partibus.amqp.events import CloseReceived
from partibus.amqp.framing import EMPTY_FRAME
from partibus.gateway.gateway import WAKE_INTERVAL_MS_MIN
from partibus.server.clock_watch import LOOK_MS
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain
from support.gateway.transaction_bus import TransactionClient

HOUR_MS = 3_600_000
steps = pytest.mark.parametrize("step_ms", [2 * HOUR_MS, -2 * HOUR_MS])


def beats(client: ClientBench) -> int:
    """How many empty frames have come."""
    data = b"".join(client._incoming)
    client._incoming = []
    assert data == EMPTY_FRAME * (len(data) // len(EMPTY_FRAME))
    return len(data) // len(EMPTY_FRAME)


@pytest.mark.parametrize("timeout_ms", [400, 1_000, 4_000, 60_000])
def test_heartbeats_come_at_half_of_what_the_peer_asks_from_the_first_on(timeout_ms: int) -> None:
    bus = BusBench()
    client = bus.client(idle_timeout_ms=timeout_ms)
    for _ in range(10):
        bus.scheduler.advance_ms(timeout_ms // 2)
        assert beats(client) == 1


def test_a_peer_that_asks_for_a_storm_costs_little() -> None:
    bus = BusBench()
    client = bus.client(idle_timeout_ms=1)
    bus.scheduler.advance_ms(1_000)
    assert beats(client) == 10


@steps
def test_heartbeats_go_on_when_the_clock_is_set(step_ms: int) -> None:
    bus = BusBench()
    client = bus.client(idle_timeout_ms=4_000)
    bus.clock.step_wall_ms(step_ms)
    for _ in range(10):
        bus.scheduler.advance_ms(2_000)
        assert beats(client) == 1
    assert not client.is_cut


@steps
def test_a_silent_peer_is_given_up_in_its_time(step_ms: int) -> None:
    bus = BusBench()
    client = bus.client()
    bus.clock.step_wall_ms(step_ms)
    limit_ms = 2 * bus.gateway.settings.idle_timeout_ms
    bus.scheduler.advance_ms(limit_ms - 1)
    client.run()
    assert client.take(CloseReceived) == []


@steps
def test_a_client_without_a_token_has_its_20_seconds(step_ms: int) -> None:
    bus = BusBench()
    client = bus.client(plain=False)
    bus.clock.step_wall_ms(step_ms)
    bus.scheduler.advance_ms(19_999)
    client.run()
    assert client.take(CloseReceived) == []
    bus.scheduler.advance_ms(WAKE_INTERVAL_MS_MIN)
    client.run()
    assert len(client.take(CloseReceived)) == 1
    bus.clock.step_wall_ms(step_ms)
    bus.scheduler.advance_ms(4_000)
    assert bus.gateway.connection_count == 0, "it answered our close"


@steps
@pytest.mark.rule("TXN-7")
def test_a_transaction_has_its_two_minutes(step_ms: int) -> None:
    bus = BusBench()
    bus.queue("q")
    client = TransactionClient(bus)
    sender = client.link("q", sends=True)
    client.send(sender, plain(1), client.declare())
    (transaction,) = client.client.connection.transactions._by_id.values()
    bus.clock.step_wall_ms(step_ms)
    bus.scheduler.advance_ms(119_999)
    assert transaction.failure is None
    bus.scheduler.advance_ms(WAKE_INTERVAL_MS_MIN)
    assert transaction.failure is not None


def test_scheduled_messages_come_within_seconds_of_a_step_forward() -> None:
    bus = BusBench()
    (fragment,) = bus.queue("q")
    client = bus.client()
    due = encode_value(Timestamp(bus.clock.now_ms() + HOUR_MS))
    scheduled = encode_annotations(encode_value(Symbol("x-opt-scheduled-enqueue-time")) + due, 1)
    client.send(client.attach("q", sends=True), [scheduled + plain(1)])
    assert fragment.machine.state.counts().scheduled == 1
    bus.clock.step_wall_ms(2 * HOUR_MS)
    bus.scheduler.advance_ms(LOOK_MS)
    counts = fragment.machine.state.counts()
    assert (counts.scheduled, counts.active) == (0, 1)
