"""Transactions on fragments that another process runs, which may be lost at any moment."""

import pytest

from partibus.amqp.codec.types import LONG, Array
from partibus.amqp.delivery import Accepted, TransactionalState
from partibus.cluster.remote import RemoteFragment
from partibus.fragment.handle import LocalFragment
from partibus.testing.bus import BusBench
from support.gateway.messages import plain, scheduled
from support.gateway.transaction_bench import TransactionClient, refused
from support.nodes.far_side import FarSide


class Far:
    """Two queues in a store that another process owns, and a client."""

    def __init__(self) -> None:
        self.bus = BusBench()
        self.owned: dict[int, LocalFragment] = {}
        scheduler = self.bus.scheduler
        self.far = FarSide(scheduler, self.owned.get, scheduler.run, is_automatic=True)
        for path in ("q", "other"):
            (fragment,) = self.bus.queue(path)
            self.owned[fragment.fragment_id] = fragment
            handle = RemoteFragment(self.far.far, fragment.fragment_id, 0, 0)
            self.bus.namespace.put_fragment(handle)
        self.far.connect()
        self.client = TransactionClient(self.bus)
        self.sender = self.client.link("q", sends=True)
        self.txn_id = self.client.declare()

    @property
    def active(self) -> list[int]:
        return [fragment.machine.state.counts().active for fragment in self.owned.values()]

    def send(self, number: int) -> object:
        return self.client.send(self.sender, plain(number), self.txn_id)


@pytest.mark.rule("TXN-2")
def test_a_far_transaction_is_like_a_near_one() -> None:
    far = Far()
    client = far.client
    client.client.send(far.sender, [plain(1)])
    client.outcomes()
    receiver = client.link("q", sends=False)
    (event,) = client.receive(receiver, 1)
    assert isinstance(client.settle(receiver, event, far.txn_id), TransactionalState)
    assert isinstance(far.send(2), TransactionalState)
    other = client.link("other", sends=True)
    assert isinstance(client.send(other, plain(3), far.txn_id), TransactionalState)
    body: dict[str, object] = {
        "messages": [{"message": scheduled(4, far.bus.clock.now_ms() + 1000)}]
    }
    assert client.ask("q", "schedule-message", body, far.txn_id)[0] == 200
    assert far.active == [1, 0]
    assert isinstance(client.discharge(far.txn_id), Accepted)
    assert far.active == [1, 1]
    txn_id = client.declare()
    numbers: dict[str, object] = {"sequence-numbers": Array(LONG, [2])}
    assert client.ask("q", "cancel-scheduled-message", numbers, txn_id)[0] == 200
    assert isinstance(client.discharge(txn_id), Accepted)


def test_a_refusal_comes_back_with_its_text() -> None:
    far = Far()
    far.send(1)
    numbers: dict[str, object] = {"sequence-numbers": Array(LONG, [77])}
    far.client.ask("q", "cancel-scheduled-message", numbers, far.txn_id)
    condition, text = refused(far.client.discharge(far.txn_id))
    assert condition == "amqp:transaction:rollback" and "77" in text
    assert far.active == [0, 0]


@pytest.mark.rule("ERR-21")
def test_a_worker_lost_during_the_commit_leaves_it_in_doubt() -> None:
    far = Far()
    far.send(1)
    far.send(2)
    far.client.discharge(far.txn_id, waits=False)
    far.far.requests.take()
    far.far.cut()
    far.client.client.run()
    (state,) = far.client.outcomes()
    condition, text = refused(state)
    assert condition == "amqp:transaction:timeout" and "in doubt" in text


def test_a_commit_that_never_left_is_rolled_back() -> None:
    far = Far()
    far.send(1)
    far.client.discharge(far.txn_id, waits=False)
    far.far.cut()
    far.client.client.run()
    (state,) = far.client.outcomes()
    assert refused(state)[0] == "amqp:transaction:rollback"
    assert far.active == [0, 0]


def test_work_for_a_worker_that_is_lost_is_refused_at_once() -> None:
    far = Far()
    far.far.cut()
    assert refused(far.send(1))[0] == "com.microsoft:server-busy"
    assert refused(far.client.discharge(far.txn_id))[0] == "amqp:transaction:rollback"


def test_a_look_at_locks_that_is_lost_with_its_worker_leaves_nothing_to_commit() -> None:
    far = Far()
    client = far.client
    client.client.send(far.sender, [plain(1)])
    client.outcomes()
    receiver = client.link("q", sends=False)
    (event,) = client.receive(receiver, 1)
    client.propose(receiver, event, far.txn_id)
    client.push()
    client.discharge(far.txn_id, waits=False)
    far.far.cut()
    client.client.run()
    (state,) = client.outcomes()
    assert refused(state)[0] == "amqp:transaction:rollback"
