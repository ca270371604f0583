"""Transactions over entities of several stores, with one worker and with two.

What is sent to a queue of another store is carried there after the commit; it is waited for
there, and is never seen in the queue that it passes through.
"""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery, Message

from conformance.partitioning.operator import Operator
from conformance.partitioning.partitions import key_of_each, partition_of
from conformance.partitioning.wire import keyed, number_of, text
from conformance.settlement.backstage import SCHEDULED, Backstage, text_message
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import until, utc_now
from conformance.transactions.test_management import InTransaction
from support.json_admin import JsonAdmin
from support.proton.transactions import Transaction, refusal, sender_via, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

STORES = 4
PARTITIONS = 4
BLOCK = b"x" * 600_000
"""One of these fits into a queue of a megabyte."""
REASON = "DeadLetterReason"


class Spread:
    """A server whose queues lie in several stores, and one connection to it."""

    def __init__(self, process: ServerProcess) -> None:
        self.client = Backstage(process)
        self.admin = JsonAdmin(process)
        self.operator = Operator(process)
        self._numbers = itertools.count()

    def queues(self) -> list[str]:
        """Fresh queues, one in every store."""
        first = STORES * next(self._numbers)
        names = [f"plain-{first + n}" for n in range(STORES)]
        assert len({self.operator.placement(name)[0] for name in names}) == STORES
        return names

    def fresh(self, kind: str, beside: str, **properties: object) -> str:
        """A new queue of some kind that is not in the store of another; the second at the latest,
        since queues are placed in turn."""
        for number in range(2):
            name = f"{kind}-{number}-of-{beside}"
            self.admin.create(name, **properties)
            if self.operator.placement(name) != self.operator.placement(beside):
                return name
        raise AssertionError("queues are not placed in turn")

    def total(self, queue: str, what: str) -> int:
        number: int = self.operator.entity(queue)["totals"][what]
        return number

    def receive(self, queue: str) -> Delivery:
        """Send a message and receive it; to be settled."""
        self.client.send(queue, "in")
        ((_, delivery),) = self.client.receiver(queue, credit=1).wait_for(1)
        return delivery

    def commit_to_a_full(self, source: str) -> str:
        """A committed message whose destination is full, so that it waits; the destination."""
        full = self.fresh("full", source, max_size_in_megabytes=1)
        self.client.send(full, Message(body=BLOCK, inferred=True))
        transaction = Transaction(self.client)
        assert taken(transaction.send(self.client.sender(source), "stays"))
        sender = self.client.sender(full)
        block = Message(body=BLOCK, inferred=True, id="the second")
        assert taken(transaction.send(sender, block))
        sender.close()
        assert transaction.commit() == "committed"
        assert self.total(source, "transfer") == 1
        return full


@pytest.fixture(scope="module", params=["one-worker", "two-workers"])
def spread(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Spread]:
    directory: Path = tmp_path_factory.mktemp(request.param)
    config = write_queues(directory / "namespace.toml", {f"plain-{n}": {} for n in range(80)})
    flags = ["--stores", str(STORES)]
    if request.param == "two-workers":
        flags += ["--workers", "2"]
    with ServerProcess(directory, config, *flags) as process:
        bus = Spread(process)
        yield bus
        bus.client.blocking.close()


@pytest.mark.rule("TXN-4", "TXN-17")
def test_receive_from_one_store_and_send_to_all(spread: Spread) -> None:
    client = spread.client
    source, *others = spread.queues()
    delivery = spread.receive(source)
    transaction = Transaction(client)
    assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
    for queue in others:
        for number in range(3):
            assert taken(transaction.send(client.sender(queue), f"{queue} {number}"))
    assert [client.shown(queue) for queue in (source, *others)] == [["in"], [], [], []]
    assert transaction.commit() == "committed"
    assert client.shown(source) == []
    for queue in others:
        assert client.bodies(queue, 3) == [f"{queue} {number}" for number in range(3)]
    until("nothing on its way", lambda: spread.total(source, "transfer") == 0)
    assert [client.shown(queue) for queue in (source, *others)] == [[]] * STORES


@pytest.mark.rule("TXN-4")
def test_sends_alone_and_a_rollback(spread: Spread) -> None:
    client = spread.client
    first, second, third, _ = spread.queues()
    for end, count in ((Transaction.roll_back, 0), (Transaction.commit, 1)):
        transaction = Transaction(client)
        for queue in (first, second, third):
            assert taken(transaction.send(client.sender(queue), f"{end.__name__}"))
        end(transaction)
        assert len(client.shown(first)) == count
    assert [client.bodies(queue, 1) for queue in (first, second, third)] == [["commit"]] * 3
    assert [client.shown(queue) for queue in (first, second, third)] == [[]] * 3


@pytest.mark.rule("TXN-4")
def test_a_client_that_does_not_wait_may_send_before_it_settles(spread: Spread) -> None:
    client = spread.client
    source, other, *_ = spread.queues()
    delivery = spread.receive(source)
    sender, own = client.sender(other), client.sender(source)
    transaction = Transaction(client)
    transaction.post(sender, text_message("first"))
    assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
    transaction.post(sender, text_message("second"))
    transaction.post(own, text_message("own"))
    assert transaction.commit() == "committed"
    assert client.bodies(other, 2) == ["first", "second"]
    assert client.shown(source) == ["own"]


@pytest.mark.rule("TXN-4", "TXN-6")
def test_send_via(spread: Spread) -> None:
    client = spread.client
    source, other, *_ = spread.queues()
    delivery = spread.receive(source)
    sender = sender_via(client, source, other)
    transaction = Transaction(client)
    assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
    assert taken(transaction.send(sender, "out"))
    assert transaction.commit() == "committed"
    assert client.shown(source) == []
    assert [message.body for message in client.take(other, 1)] == ["out"]


@pytest.mark.rule("TXN-4", "SEED-56")
def test_every_partition_of_a_destination_is_reached(spread: Spread) -> None:
    client = spread.client
    source, *_ = spread.queues()
    parted = spread.fresh("parted", source, enable_partitioning=True, partition_count=PARTITIONS)
    keys = key_of_each(PARTITIONS)
    transaction = Transaction(client)
    assert taken(transaction.send(client.sender(source), "own"))
    for key in keys:
        for number in range(2):
            message = keyed(f"{key} {number}", key)
            assert taken(transaction.send(client.sender(parted), message))
    assert transaction.commit() == "committed"
    got = client.take(parted, 2 * PARTITIONS)
    for partition, key in enumerate(keys):
        mine = [message for message in got if text(message).startswith(f"{key} ")]
        assert [text(message) for message in mine] == [f"{key} 0", f"{key} 1"]
        assert {partition_of(number_of(message)) for message in mine} == {partition}


@pytest.mark.rule("TXN-4", "SCH-1")
def test_a_scheduled_message_waits_at_its_destination(spread: Spread) -> None:
    client = spread.client
    source, other, *_ = spread.queues()
    transaction = Transaction(client)
    assert taken(transaction.send(client.sender(source), "own"))
    later = keyed("later", due=utc_now() + timedelta(hours=1))
    assert taken(transaction.send(client.sender(other), later))
    assert transaction.commit() == "committed"
    (item,) = until("the message to arrive", lambda: client.peek(other))
    assert (item.body, item.state) == ("later", SCHEDULED)
    assert client.shown(source) == ["own"]
    assert client.management(other).cancel_scheduled(item.number).status == 200
    transaction = Transaction(client)
    assert taken(transaction.send(client.sender(source), "own"))
    reply = InTransaction(client, other, transaction).schedule(later)
    assert reply.status == 400 and "is not known before" in reply.text
    assert transaction.commit() == "not committed"


@pytest.mark.rule("TXN-4", "SES-1", "MSG-3")
def test_the_rules_of_the_destination_hold_when_it_is_sent_to(spread: Spread) -> None:
    client = spread.client
    source, *_ = spread.queues()
    sessions = spread.fresh("sessions", source, requires_session=True)
    narrow = spread.fresh("narrow", source, max_message_size_in_kilobytes=16)
    for queue, message, words in (
        (sessions, text_message("none"), "SessionId"),
        (narrow, Message(body=b"x" * 20_000, inferred=True), "larger than"),
    ):
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(source), "own"))
        condition, description = refusal(transaction.send(client.sender(queue), message))
        assert words in description, condition
        assert transaction.commit() == "not committed"
    assert client.shown(source) == []


# --- when the destination does not take it -----------------------------------------------------


@pytest.mark.rule("TDQ-2", "TDQ-3")
def test_a_full_destination_is_waited_for(spread: Spread) -> None:
    client = spread.client
    source, *_ = spread.queues()
    full = spread.commit_to_a_full(source)
    assert client.shown(source) == ["stays"]
    assert len(client.take(full, 1)) == 1
    (message,) = client.take(full, 1)
    assert message.id == "the second"
    until("nothing on its way", lambda: spread.total(source, "transfer") == 0)
    assert spread.total(source, "transfer_dead_letter") == 0


@pytest.mark.rule("TDQ-1", "TDQ-2", "TDQ-3")
@pytest.mark.parametrize("reason", ["EntityDisabled", "EntityNotFound"])
def test_a_destination_that_is_lost_after_the_commit(spread: Spread, reason: str) -> None:
    client = spread.client
    source, *_ = spread.queues()
    full = spread.commit_to_a_full(source)
    if reason == "EntityDisabled":
        spread.admin.update(full, status="SendDisabled")
    else:
        spread.admin.delete(full)
    (message,) = client.take(f"{source}/$Transfer/$DeadLetterQueue", 1)
    assert message.id == "the second" and message.properties[REASON] == reason
    assert full in message.properties["DeadLetterErrorDescription"]
    assert spread.total(source, "transfer") == 0
    assert client.shown(source) == ["stays"]
    assert spread.total(source, "dead_letter") == 0
