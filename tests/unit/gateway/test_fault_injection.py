"""Throttles, and what a client sees of them."""

import pytest

from partibus.amqp.delivery import Accepted, Rejected
from partibus.amqp.events import CloseReceived, DispositionReceived
from partibus.gateway.fault_injection import Throttle
from partibus.gateway.links.inbound import CREDIT
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain


def outcomes(client: ClientBench) -> list[object]:
    found: list[object] = []
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived)
        found += [event.state] * len(event.deliveries)
    return found


def test_a_second_s_worth_may_come_at_once_then_the_rate_holds() -> None:
    throttle = Throttle(5, now_ms=0)
    assert [throttle.admits(0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [throttle.admits(200), throttle.admits(200)] == [True, False]
    assert sum(throttle.admits(60_000) for _ in range(100)) == 5
    assert throttle.refused_count == 2 + 1 + 95


def test_a_rate_below_one_a_second_lets_single_sends_through() -> None:
    throttle = Throttle(0.5, now_ms=0)
    assert [throttle.admits(ms) for ms in (0, 1_000, 2_000)] == [True, False, True]


def test_a_rate_of_nothing_lets_one_through_and_no_more() -> None:
    throttle = Throttle(0, now_ms=0)
    assert [throttle.admits(ms) for ms in (0, 1_000_000)] == [True, False]


@pytest.mark.rule("ERR-10", "THR-1")
def test_sends_above_the_rate_are_refused_as_busy() -> None:
    bus = BusBench(faults=True)
    assert bus.faults is not None
    bus.queue("orders")
    bus.queue("free")
    bus.faults.set_throttle("ORDERS", throttle := Throttle(2, bus.clock.now_ms()))
    client = bus.client()
    sender = client.attach("orders", sends=True)
    client.send(sender, [plain(n) for n in range(4)])
    first, second, *refused = sorted(outcomes(client), key=lambda state: type(state).__name__)
    assert isinstance(first, Accepted) and isinstance(second, Accepted)
    for state in refused:
        assert isinstance(state, Rejected) and state.error is not None
        assert state.error.condition == "com.microsoft:server-busy"
        assert "50009" in state.error.description
    assert throttle.refused_count == 2
    free = client.attach("free", sends=True)
    client.send(free, [plain(n) for n in range(4)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 4
    bus.faults.set_throttle("orders", None)
    client.send(sender, [plain(n) for n in range(4)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 4


def test_a_sender_that_is_only_refused_keeps_its_credit() -> None:
    bus = BusBench(faults=True)
    assert bus.faults is not None
    bus.queue("orders")
    bus.faults.set_throttle("orders", Throttle(0, bus.clock.now_ms()))
    client = bus.client()
    sender = client.attach("orders", sends=True)
    for _ in range(3):
        client.send(sender, [plain(n) for n in range(CREDIT // 2)])
    assert sender.credit > 0
    assert len(outcomes(client)) == 3 * (CREDIT // 2)


def test_all_connections_are_closed_by_force() -> None:
    bus = BusBench(faults=True)
    clients = [bus.client() for _ in range(3)]
    assert bus.gateway.close_connections("on demand") == 3
    assert bus.gateway.connection_count == 0
    for client in clients:
        client.run()
        (closed,) = client.take(CloseReceived)
        assert isinstance(closed, CloseReceived) and closed.error is not None
        assert closed.error.condition == "amqp:connection:forced"
        assert client.is_cut
