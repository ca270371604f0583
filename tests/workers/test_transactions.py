"""A worker is killed while transactions on its queues are committed: each is whole, or absent.

The gateway of the other worker does not know whether a commit went through that was on its way,
and says so; a client that was told "committed" or "rolled back" can rely on it.
"""

from contextlib import suppress

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException

from adversity.waiting import wait_until
from conformance.settlement.backstage import Backstage
from support.proton.transactions import Transaction, taken
from support.workers import WorkersServer

pytestmark = pytest.mark.group("proton")

VICTIM = 1
ROUNDS = 3
CLIENTS = 4
SENDS = 3
QUEUES = [f"plain-{number}" for number in range(4)]
"""One in each store; half of them are the victim's."""


class Mover:
    """A client with an open transaction on each queue."""

    def __init__(self, server: WorkersServer, name: str) -> None:
        self._client = Backstage(server)
        self.transactions: dict[tuple[str, str], Transaction] = {}
        for queue in QUEUES:
            # The other worker finds one that is back after a moment.
            wait_until(lambda queue=queue: self._begin(name, queue), f"{queue} takes messages")

    def _begin(self, name: str, queue: str) -> bool:
        transaction = Transaction(self._client)
        self.transactions[name, queue] = transaction
        sender = self._client.sender(queue)
        return all(taken(transaction.send(sender, f"{name}.{number}")) for number in range(SENDS))

    def post_commits(self) -> None:
        """Write the discharges without waiting for what becomes of them."""
        for transaction in self.transactions.values():
            transaction.proton.commit()
        self._client.blocking.container.process()

    def await_answers(self) -> None:
        """Until each is answered, or the connection is lost with the worker that had it."""
        with suppress(ConnectionException):
            self._client.wait(
                lambda: all(len(t.heard) > 1 for t in self.transactions.values()), "the answers"
            )

    def leave(self) -> None:
        with suppress(ConnectionException):
            self._client.blocking.close()


def told(transaction: Transaction) -> str:
    """`committed`, the condition of a refusal, or nothing."""
    if len(transaction.heard) < 2:
        return ""
    if transaction.heard[-1] == "committed":
        return "committed"
    return str(transaction.refusal[0])


@pytest.mark.rule("TXN-2", "ERR-21")
def test_a_commit_is_whole_whatever_became_of_its_worker(server: WorkersServer) -> None:
    for number in range(ROUNDS):
        movers = [Mover(server, f"{number}-{client}") for client in range(CLIENTS)]
        for mover in movers:
            mover.post_commits()
        offset = server.kill_worker(VICTIM)
        for mover in movers:
            mover.await_answers()
        server.wait_worker(VICTIM, offset)
        for mover in movers:
            mover.leave()
        check(server, movers)


def check(server: WorkersServer, movers: list[Mover]) -> None:
    with Backstage(server) as client:
        there = {queue: [str(body) for body in client.shown(queue)] for queue in QUEUES}
        for mover in movers:
            for (name, queue), transaction in mover.transactions.items():
                count = sum(body.rpartition(".")[0] == name for body in there[queue])
                outcome = told(transaction)
                allowed = {
                    "committed": (SENDS,),
                    "amqp:transaction:rollback": (0,),
                    "amqp:transaction:timeout": (0, SENDS),
                    "": (0, SENDS),
                }[outcome]
                assert count in allowed, (name, queue, outcome, count)
