"""Management requests in a transaction: scheduling, settlement by token, and what is refused."""

from datetime import timedelta

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Message, int32

from conformance.partitioning.wire import keyed
from conformance.settlement.backstage import SCHEDULED, Backstage
from conformance.settlement.management import Management, Reply, longs, uuids
from conformance.settlement.steps import utc_now
from conformance.transactions.namespace import Queues
from support.proton.client import LOCK_TOKEN
from support.proton.transactions import Transaction, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")


class InTransaction(Management):
    """The management node, asked within a transaction."""

    def __init__(self, client: Backstage, path: str, transaction: Transaction) -> None:
        super().__init__(client, path)
        self._sender = self._requests
        self._transaction = transaction
        self._requests = self

    def send(self, request: Message) -> None:
        """Stands in for the sending link of the requests."""
        assert taken(self._transaction.send(self._sender, request))

    def schedule(self, *messages: Message) -> Reply:
        items = [{"message-id": "id", "message": message.encode()} for message in messages]
        return self.ask("schedule-message", {"messages": items})


def later(body: str) -> Message:
    return keyed(body, due=utc_now() + timedelta(hours=1))


@pytest.mark.rule("SCH-7", "TXN-1")
def test_scheduling_has_its_number_at_once_and_happens_at_the_commit(
    server: ServerProcess, queue: str
) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        reply = InTransaction(client, queue, transaction).schedule(later("one"), later("two"))
        assert reply.status == 200
        first, second = reply.body["sequence-numbers"].elements
        client.send(queue, "between")
        assert client.shown(queue) == ["between"]
        assert transaction.commit() == "committed"
        shown = {item.number: (item.body, item.state) for item in client.peek(queue)}
        assert shown[first] == ("one", SCHEDULED) and shown[second] == ("two", SCHEDULED)
        assert client.management(queue).cancel_scheduled(first).status == 200
        assert sorted(client.shown(queue)) == ["between", "two"]


@pytest.mark.rule("SCH-7")
def test_scheduling_that_is_rolled_back_never_was(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        reply = InTransaction(client, queue, transaction).schedule(later("one"))
        (number,) = reply.body["sequence-numbers"].elements
        assert transaction.roll_back() == "aborted"
        assert client.shown(queue) == []
        assert client.management(queue).cancel_scheduled(number).status == 404


@pytest.mark.rule("TXN-1", "TXN-2")
def test_settlement_by_token_is_part_of_it(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue, credit=2)
        tokens = [message.instructions[LOCK_TOKEN] for message, _ in receiver.wait_for(2)]
        transaction = Transaction(client)
        node = InTransaction(client, queue, transaction)
        assert node.settle("completed", tokens[0]).status == 200
        assert node.settle("defered", tokens[1]).status == 200
        assert len(client.shown(queue)) == 2
        assert transaction.commit() == "committed"
        assert [(item.body, item.state) for item in client.peek(queue)] == [("two", 1)]


def test_a_cancellation_is_part_of_it(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, later("one"))
        (item,) = client.peek(queue)
        transaction = Transaction(client)
        node = InTransaction(client, queue, transaction)
        assert node.cancel_scheduled(item.number).status == 200
        assert client.shown(queue) == ["one"]
        assert transaction.commit() == "committed"
        assert client.shown(queue) == []


def test_a_cancellation_of_nothing_fails_the_commit(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(queue), "out"))
        node = InTransaction(client, queue, transaction)
        assert node.ask("cancel-scheduled-message", {"sequence-numbers": longs([9])}).status == 200
        assert transaction.commit() == "not committed"
        assert transaction.refusal[0] == "amqp:transaction:rollback"
        assert client.shown(queue) == []


@pytest.mark.rule("TXN-1")
def test_a_renewal_is_allowed(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "one")
        receiver = client.receiver(queue, credit=1)
        ((message, _),) = receiver.wait_for(1)
        transaction = Transaction(client)
        node = InTransaction(client, queue, transaction)
        tokens = uuids([message.instructions[LOCK_TOKEN]])
        assert node.ask("renew-lock", {"lock-tokens": tokens}).status == 200
        assert transaction.commit() == "committed"


@pytest.mark.parametrize("operation", ["peek-message", "receive-by-sequence-number", "add-rule"])
def test_other_operations_are_refused(server: ServerProcess, queue: str, operation: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        node = InTransaction(client, queue, transaction)
        reply = node.ask(operation, {"message-count": int32(1)})
        assert reply.status in (400, 501) and "transaction" in reply.text
        assert transaction.commit() == "not committed"


@pytest.mark.rule("SEED-47")
def test_scheduling_without_a_key_is_refused_on_a_partitioned_queue(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("parted")
    with Backstage(server) as client:
        reply = InTransaction(client, queue, Transaction(client)).schedule(later("one"))
        assert (reply.status, reply.condition) == (400, "amqp:not-allowed")
