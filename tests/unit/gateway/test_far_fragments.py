"""Clients of a gateway whose fragments run in another process, which is lost and comes back."""

import pytest

from partibus.amqp.delivery import ACCEPTED, Accepted, Rejected
from partibus.amqp.events import (
    DetachReceived,
    DispositionReceived,
    FlowReceived,
    IncomingSettled,
    TransferReceived,
)
from partibus.cluster.remote import RemoteFragment
from partibus.domain.entity import QueueSpec
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.testing.bus import BusBench, ClientBench
from partibus.testing.fragment import Ports
from support.gateway.messages import keyed, plain
from support.nodes.far_side import FarSide

PARTITIONED = QueueSpec(enable_partitioning=True, fragments=4)


class TwoWorkers:
    """A bus with two stores; the second belongs to another process."""

    def __init__(self, spec: QueueSpec | None = None, *, is_automatic: bool = True) -> None:
        self.bus = BusBench(stores=2)
        self.owned: dict[int, Fragment] = {}
        self.far = FarSide(
            self.bus.scheduler, self.owned.get, self.bus.scheduler.run, is_automatic=is_automatic
        )
        self.bus.queue("near")
        self._move(self.bus.queue("far"), spec_stores=[1])
        self._move(self.bus.queue("q", spec or PARTITIONED), spec_stores=[0, 1, 0, 1])
        self.far.connect()
        self.client = self.bus.client()

    def _move(self, fragments: list[Fragment], spec_stores: list[int]) -> None:  # type: ignore[type-arg]
        for fragment, store in zip(fragments, spec_stores, strict=True):
            if store == 1:
                self.owned[fragment.fragment_id] = fragment
                handle = RemoteFragment(self.far.far, fragment.fragment_id, fragment.index, 1)
                self.bus.namespace.put_fragment(handle)

    def put(self, path: str, index: int, number: int) -> None:
        """Store a message behind the gateway's back."""
        record = self.bus.catalog.entity(path)
        fragment = self.owned[record.fragments[index].fragment_id]
        body = self.stored(number)
        fragment.submit(Enqueue(Ports(), [body], [0], len(body.body)))
        self.client.run()

    @staticmethod
    def stored(number: int) -> NewMessage:
        from partibus.message.envelope import to_stored

        return to_stored(plain(number))


def outcomes(client: ClientBench) -> list[object]:
    found: list[object] = []
    for event in client.take(DispositionReceived):
        assert isinstance(event, DispositionReceived)
        found += [event.state] * len(event.deliveries)
    return found


def transfers(client: ClientBench) -> list[TransferReceived]:
    return [event for event in client.take(TransferReceived) if isinstance(event, TransferReceived)]


def bodies(events: list[TransferReceived]) -> list[bytes]:
    return [event.payload[-2:] for event in events]


def condition(state: object) -> str:
    assert isinstance(state, Rejected) and state.error is not None
    return str(state.error.condition)


def test_a_far_queue_is_used_like_a_near_one() -> None:
    workers = TwoWorkers()
    client = workers.client
    sender = client.attach("far", sends=True)
    client.send(sender, [plain(n) for n in range(3)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 3
    receiver = client.attach("far", sends=False)
    receiver.set_credit(10)
    client.run()
    got = transfers(client)
    assert bodies(got) == [b"00", b"01", b"02"]
    receiver.propose(got[0].delivery_id, ACCEPTED)
    client.run()
    (settled,) = client.take(IncomingSettled)
    assert isinstance(settled, IncomingSettled) and isinstance(settled.state, Accepted)


def test_a_partitioned_queue_draws_from_near_and_far() -> None:
    workers = TwoWorkers()
    client = workers.client
    sender = client.attach("q", sends=True)
    client.send(sender, [plain(n) for n in range(8)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 8
    receiver = client.attach("q", sends=False)
    receiver.set_credit(20)
    client.run()
    assert sorted(bodies(transfers(client))) == [b"0%d" % n for n in range(8)]


@pytest.mark.rule("SEED-40")
def test_keyless_sends_pass_over_a_worker_that_is_lost() -> None:
    workers = TwoWorkers()
    client = workers.client
    sender = client.attach("q", sends=True)
    workers.far.cut()
    client.send(sender, [plain(n) for n in range(8)])
    assert [type(state) for state in outcomes(client)] == [Accepted] * 8


def test_keyless_sends_that_had_not_left_go_elsewhere_those_that_had_do_not() -> None:
    workers = TwoWorkers()
    client = workers.client
    sender = client.attach("q", sends=True)
    for n in range(4):
        sender.send(plain(n), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    workers.far.cut()
    client.run()
    assert [type(state) for state in outcomes(client)] == [Accepted] * 4, "nothing had left"
    workers.far.connect()
    for n in range(4):
        sender.send(plain(n), b"t", False, 0, None)
    client.connection.data_received(client.engine.data_to_send())
    workers.far.requests.take()
    workers.far.cut()
    client.run()
    states = outcomes(client)
    assert [condition(s) for s in states if isinstance(s, Rejected)] == [
        "com.microsoft:timeout"
    ] * 2
    assert sum(isinstance(state, Accepted) for state in states) == 2


def test_a_send_to_a_far_queue_that_is_lost_is_worth_another_try() -> None:
    workers = TwoWorkers()
    client = workers.client
    sender = client.attach("far", sends=True)
    workers.far.cut()
    client.send(sender, [plain(0)])
    assert [condition(state) for state in outcomes(client)] == ["com.microsoft:server-busy"]
    workers.far.connect()
    client.send(sender, [plain(1)])
    assert [type(state) for state in outcomes(client)] == [Accepted]


@pytest.mark.parametrize("path, index", [("far", 0), ("q", 1)])
def test_a_receiving_link_lives_through_the_loss(path: str, index: int) -> None:
    workers = TwoWorkers()
    client = workers.client
    receiver = client.attach(path, sends=False)
    receiver.set_credit(10)
    client.run()
    workers.put(path, index, 1)
    assert bodies(transfers(client)) == [b"01"]
    for number in (2, 3):
        workers.far.cut()
        client.run()
        workers.far.connect()
        client.run()
        workers.put(path, index, number)
        assert bodies(transfers(client)) == [b"%02d" % number]
    assert receiver.credit == 7


def test_a_lost_worker_costs_the_others_no_credit() -> None:
    """All credit had gone to the lost fragments; what they did not use goes to the rest."""
    workers = TwoWorkers()
    client = workers.client
    receiver = client.attach("q", sends=False)
    receiver.set_credit(2)
    client.run()
    workers.put("q", 1, 1)
    workers.far.cut()
    client.run()
    sender = client.attach("q", sends=True)
    client.send(sender, [plain(5)])
    assert bodies(transfers(client)) == [b"01", b"05"]


def test_a_drain_ends_while_a_worker_is_lost() -> None:
    for path in ("far", "q"):
        workers = TwoWorkers()
        client = workers.client
        receiver = client.attach(path, sends=False)
        workers.far.cut()
        receiver.set_credit(5, drain=True)
        client.run()
        assert client.take(FlowReceived)
        assert receiver.credit == 0


def test_a_drain_waits_for_what_was_asked_before_it() -> None:
    workers = TwoWorkers(is_automatic=False)
    client, far = workers.client, workers.far
    receiver = client.attach("q", sends=False)
    receiver.set_credit(5)
    client.run()
    far.run()
    workers.put("q", 1, 1)
    far.carry_answers()  # the first far fragment has something, and is asked for it
    assert len(far.requests.rows) == 1
    workers.put("q", 3, 3)
    receiver.set_credit(5, drain=True)
    client.run()
    while receiver.drain:
        assert far.requests.rows or far.answers.rows, "the drain is never answered"
        far.carry_requests()
        far.carry_answers()
        client.run()
    assert sorted(bodies(transfers(client))) == [b"01", b"03"]


def test_settlements_of_a_lost_worker_are_worth_another_try() -> None:
    workers = TwoWorkers()
    client = workers.client
    receiver = client.attach("far", sends=False)
    receiver.set_credit(1)
    workers.put("far", 0, 1)
    (got,) = transfers(client)
    workers.far.cut()
    receiver.propose(got.delivery_id, ACCEPTED)
    client.run()
    (settled,) = client.take(IncomingSettled)
    assert isinstance(settled, IncomingSettled)
    assert condition(settled.state) == "com.microsoft:server-busy"


def test_a_link_that_closes_takes_its_receiver_away_from_the_far_worker() -> None:
    workers = TwoWorkers()
    client = workers.client
    receiver = client.attach("far", sends=False)
    receiver.set_credit(5)
    client.run()
    receiver.detach()
    client.run()
    workers.put("far", 0, 1)
    assert transfers(client) == []
    other = client.attach("far", sends=False, name="other")
    other.set_credit(5)
    client.run()
    assert bodies(transfers(client)) == [b"01"]


@pytest.mark.parametrize("path", ["far", "q"])
def test_a_deleted_entity_leaves_nothing_at_either_end(path: str) -> None:
    workers = TwoWorkers()
    client = workers.client
    sender, receiver = client.attach(path, sends=True), client.attach(path, sends=False)
    client.send(sender, [plain(n) for n in range(8)])
    receiver.set_credit(3)
    client.run()
    record = workers.bus.catalog.delete(path)
    for placement in record.fragments:
        workers.owned.pop(placement.fragment_id, None)
    client.run()
    assert {event.link for event in client.take(DetachReceived)} == {sender, receiver}  # type: ignore[attr-defined]
    far, host = workers.far.far, workers.far.host
    assert not far._consumers and not far._by_number and not far._pending
    assert host is not None and not host._receivers
    assert [store.live_bytes for store in workers.bus.stores] == [0, 0]


@pytest.mark.parametrize("path", ["far", "q"])
def test_a_worker_that_has_not_heard_of_a_deletion_is_told_by_the_owner(path: str) -> None:
    workers = TwoWorkers(QueueSpec(enable_partitioning=True, fragments=4))
    client = workers.client
    sender = client.attach(path, sends=True)
    workers.owned.clear()
    client.send(sender, [keyed(1, "customer-42"), keyed(2, "a")])
    assert {condition(state) for state in outcomes(client)} == {"amqp:not-found"}
