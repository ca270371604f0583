"""Settlements in a transaction whose deliveries the client has settled, as JMS clients do."""

import pytest

from partibus.amqp.delivery import ACCEPTED, transactional_state
from partibus.amqp.link import Link
from partibus.testing.bus import BusBench
from support.gateway.messages import plain
from support.gateway.session_clients import bodies, outcomes, receive
from support.gateway.transaction_bench import TransactionClient

pytestmark = pytest.mark.rule("TXN-20")


class Bench:
    """A queue with two messages, of which one is settled in a transaction, delivery and all."""

    def __init__(self) -> None:
        self.bus = BusBench()
        (self.fragment,) = self.bus.queue("q")
        self.transactions = TransactionClient(self.bus)
        self.client = self.transactions.client
        sender = self.client.attach("q", sends=True, name="sender")
        self.client.send(sender, [plain(1), plain(2)])
        outcomes(self.client)
        self.link: Link = self.client.attach("q", sends=False, name="receiver")
        (self.first,) = receive(self.client, self.link, 1)
        self.txn_id = self.transactions.declare()
        state = transactional_state(self.txn_id, ACCEPTED)
        self.link.settle(self.first.delivery_id, state)
        self.client.run()

    def next(self) -> list[int]:
        return bodies(receive(self.client, self.link, 5))


def test_after_a_rollback_the_message_waits_before_the_answer() -> None:
    bench = Bench()
    bench.transactions.discharge(bench.txn_id, fail=True)
    assert bench.next() == [1, 2]


def test_after_a_commit_it_is_gone() -> None:
    bench = Bench()
    bench.transactions.discharge(bench.txn_id)
    assert bench.next() == [2]


def test_a_failure_gives_it_back_too() -> None:
    bench = Bench()
    bench.client.session.connection.close()
    bench.client.run()
    other = bench.bus.client()
    link = other.attach("q", sends=False, name="other")
    assert bodies(receive(other, link, 5)) == [1, 2]
