"""Sessions that leave: an entity that requires sessions and forwards keeps the order of each."""

from dataclasses import replace

import pytest

from partibus.domain.errors import BusError, InvalidOperation
from partibus.fragment.commands import Detach, Outcome, SubQueueType
from partibus.fragment.message import Overlay
from partibus.fragment.outbox.commands import Collect, Forwarded, ForwardWaiting, ReturnParcels
from partibus.fragment.outbox.state import Parcel
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import FragmentBench

STAYS = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=3, requires_session=True, path="orders"
)
GOES = replace(STAYS, forward_to="there")
REASON = Overlay(reason="because", description="of it")


class Bag:
    """A courier that only collects."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def collected(self, parcels: list[Parcel], bodies: list[bytes]) -> None:
        self.bodies += bodies

    def unreadable(self, parcels: list[Parcel], error: BusError) -> None:
        raise AssertionError(error.text)

    def done(self, count: int) -> None:
        assert count

    def failed(self, error: BusError) -> None:
        raise AssertionError(error.text)


def on_their_way(bench: FragmentBench) -> list[bytes]:
    bag = Bag()
    bench.submit(Collect(bag, 0, 100, 1 << 20))
    bench.state.outbox.collector = None
    return bag.bodies


def respec(bench: FragmentBench, spec: FragmentSpec) -> None:
    bench.spec = bench.state.spec = spec
    bench.submit(ForwardWaiting(False))


def session_count(bench: FragmentBench) -> int:
    assert bench.state.sessions is not None
    return len(bench.state.sessions.by_id)


@pytest.mark.rule("FWD-4")
def test_what_arrives_leaves_in_order_and_is_nobodys_to_accept() -> None:
    bench = FragmentBench(GOES)
    for body, session_id in ((b"a1", "a"), (b"b1", "b"), (b"a2", "a")):
        bench.send(body, session_id=session_id)
    inbox, _ = bench.accept("a")
    assert [type(error) for error in inbox.errors] == [InvalidOperation]
    assert "forwards to 'there'" in inbox.errors[0].text
    assert on_their_way(bench) == [b"a1", b"b1", b"a2"]


@pytest.mark.rule("FWD-4")
def test_what_waits_follows_when_forwarding_is_switched_on() -> None:
    bench = FragmentBench(STAYS)
    for body, session_id in ((b"a1", "a"), (b"b1", "b"), (b"a2", "a")):
        bench.send(body, session_id=session_id)
    respec(bench, GOES)
    bench.send(b"b2", session_id="b")
    assert on_their_way(bench) == [b"a1", b"b1", b"a2", b"b2"]
    assert bench.state.counts().active == 0


@pytest.mark.rule("FWD-4")
def test_a_session_in_use_is_taken_from_its_holder_and_keeps_its_order() -> None:
    bench = FragmentBench(STAYS)
    bench.send(b"a1", b"a2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    assert [message.body for message in inbox.take()] == [b"a1"]
    waiting, _ = bench.accept(waits=True)
    respec(bench, GOES)
    bench.send(b"a3", session_id="a")
    assert not inbox.is_holding
    assert [type(error) for error in waiting.errors] == [InvalidOperation]
    assert on_their_way(bench) == [b"a1", b"a2", b"a3"]


@pytest.mark.rule("FWD-4")
def test_a_settlement_under_way_is_waited_for() -> None:
    bench = FragmentBench(STAYS)
    bench.send(b"a1", b"a2", session_id="a")
    bench.send(b"b1", session_id="b")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    (first,) = inbox.take()
    held = bench.state.main.locks[first.token]
    held.busy = True  # its settlement is not durable yet
    respec(bench, GOES)
    assert on_their_way(bench) == [b"b1"]
    held.busy = False
    bench.submit(Detach(consumer))
    bench.state.main.unlock(held)
    bench.state.main.put_back(held)
    bench.submit(ForwardWaiting(False))
    assert on_their_way(bench) == [b"b1", b"a1", b"a2"]


@pytest.mark.rule("FWD-4")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_handed_over_messages_are_in_no_session(is_restarted: bool) -> None:
    bench = FragmentBench(GOES)
    bench.send(b"a1", b"a2", session_id="a")
    assert session_count(bench) == 1
    bench.submit(Forwarded(Bag(), [1]))
    if is_restarted:
        bench.start()
    assert on_their_way(bench) == [b"a2"]
    assert session_count(bench) == 1
    bench.submit(Forwarded(Bag(), [2]))
    if is_restarted:
        bench.start()
    assert session_count(bench) == 0


@pytest.mark.rule("FWD-4")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_comes_back_is_in_its_session_again(is_restarted: bool) -> None:
    bench = FragmentBench(GOES)
    bench.send(b"a1", b"a2", session_id="a")
    respec(bench, STAYS)
    bench.submit(ReturnParcels(Bag(), [1, 2], SubQueueType.MAIN, None))
    if is_restarted:
        bench.start()
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 5)
    messages = inbox.take()
    assert [message.body for message in messages] == [b"a1", b"a2"]
    bench.settle([message.token for message in messages], Outcome.COMPLETE)
    bench.submit(Detach(consumer))
    assert session_count(bench) == 0


@pytest.mark.rule("FWD-7")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_cannot_be_forwarded_is_a_dead_letter_in_no_session(is_restarted: bool) -> None:
    bench = FragmentBench(GOES)
    bench.send(b"a1", session_id="a")
    bench.submit(ReturnParcels(Bag(), [1], SubQueueType.DEAD_LETTER, REASON))
    if is_restarted:
        bench.start()
    assert session_count(bench) == 0
    (letter,) = bench.receive(5, SubQueueType.DEAD_LETTER)
    assert letter.body == b"a1"
