"""Management requests in a transaction: what joins it, what stands beside it, what is refused."""

import re
from uuid import UUID

import pytest

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.sections import parse_sections
from partibus.amqp.codec.types import LONG, Array
from partibus.amqp.delivery import Accepted
from partibus.amqp.events import TransferReceived
from partibus.domain.entity import QueueSpec
from partibus.testing.bus import BusBench
from support.gateway.messages import keyed, plain, scheduled
from support.gateway.transaction_bench import TransactionClient, refused

UUID_CODE = 0x98


class Queue:
    """A bus with a queue and a client in its first transaction."""

    def __init__(self, spec: QueueSpec | None = None) -> None:
        self.bus = BusBench()
        self.fragments = self.bus.queue("q", spec)
        self.client = TransactionClient(self.bus)
        self.sender = self.client.link("q", sends=True)
        self.txn_id = self.client.declare()

    @property
    def counts(self) -> tuple[int, int, int]:
        every = [fragment.machine.state.counts() for fragment in self.fragments]
        return (
            sum(counts.active for counts in every),
            sum(counts.scheduled for counts in every),
            sum(counts.locked for counts in every),
        )

    def take(self) -> UUID:
        """Send a message and receive it; its lock token."""
        self.client.client.send(self.sender, [plain(1)])
        self.client.outcomes()
        receiver = self.client.link("q", sends=False)
        (event,) = self.client.receive(receiver, 1)
        return UUID(bytes_le=event.tag)

    def ask(self, operation: str, body: dict[str, object]) -> tuple[int, bytes]:
        return self.client.ask("q", operation, body, self.txn_id)

    def settle(self, token: UUID, status: str) -> int:
        tokens = Array(UUID_CODE, [token])
        body: dict[str, object] = {"disposition-status": status, "lock-tokens": tokens}
        return self.ask("update-disposition", body)[0]

    def schedule(self, *payloads: bytes) -> list[int]:
        items: list[object] = [{"message": payload} for payload in payloads]
        status, answer = self.ask("schedule-message", {"messages": items})
        assert status == 200
        body, _ = decode_value(answer, parse_sections(answer).body_offset + 3, len(answer))
        assert isinstance(body, dict)
        return [int(number) for number in body["sequence-numbers"].items]

    def cancel(self, *numbers: int) -> int:
        return self.ask("cancel-scheduled-message", {"sequence-numbers": Array(LONG, [*numbers])})[
            0
        ]

    def commit(self) -> object:
        return self.client.discharge(self.txn_id)


@pytest.fixture
def q() -> Queue:
    return Queue()


@pytest.mark.rule("TXN-1", "TXN-2")
def test_settlement_by_token_waits_for_the_commit(q: Queue) -> None:
    token = q.take()
    assert q.settle(token, "completed") == 200
    assert q.counts == (1, 0, 1)
    assert isinstance(q.commit(), Accepted)
    assert q.counts == (0, 0, 0)


def test_a_lost_token_is_told_at_once_and_leaves_nothing_to_commit(q: Queue) -> None:
    token = q.take()
    q.bus.scheduler.advance_ms(61_000)
    q.client.client.run()
    assert q.settle(token, "completed") == 410
    assert refused(q.commit())[0] == "amqp:transaction:rollback"


@pytest.mark.rule("SCH-7", "TXN-1")
def test_scheduling_tells_its_numbers_and_waits_for_the_commit(q: Queue) -> None:
    due_ms = q.bus.clock.now_ms() + 10_000
    numbers = q.schedule(scheduled(1, due_ms), scheduled(2, due_ms))
    q.client.client.send(q.sender, [plain(3)])
    assert q.counts == (1, 0, 0)
    q.client.outcomes()
    assert isinstance(q.commit(), Accepted)
    assert q.counts == (1, 2, 0)
    q.txn_id = q.client.declare()
    assert q.cancel(numbers[0]) == 200
    assert q.counts == (1, 2, 0)
    assert isinstance(q.commit(), Accepted)
    assert q.counts == (1, 1, 0)
    q.bus.scheduler.advance_ms(10_001)
    assert q.counts == (2, 0, 0)


@pytest.mark.rule("SCH-7")
def test_a_rollback_schedules_nothing(q: Queue) -> None:
    numbers = q.schedule(scheduled(1, q.bus.clock.now_ms() + 1000))
    assert isinstance(q.client.discharge(q.txn_id, fail=True), Accepted)
    assert q.counts == (0, 0, 0)
    q.client.client.send(q.sender, [plain(3)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    assert isinstance(event, TransferReceived)
    assert numbers == [1], "and its number is given to nobody else"
    assert q.fragments[0].machine.state.next_sequence == 3


def test_a_cancellation_of_what_is_not_there_fails_the_commit(q: Queue) -> None:
    assert q.cancel(77) == 200
    condition, text = refused(q.commit())
    assert condition == "amqp:transaction:rollback" and "77" in text


def test_scheduling_keeps_to_the_rules_of_partitions() -> None:
    q = Queue(QueueSpec(enable_partitioning=True, fragments=4))
    assert q.ask("schedule-message", {"messages": [{"message": plain(1)}]})[0] == 400
    q.txn_id = q.client.declare()
    (first,) = q.schedule(keyed(1, "k"))
    q.client.send(q.sender, keyed(2, "k"), q.txn_id)
    assert isinstance(q.commit(), Accepted)
    q.bus.scheduler.advance_ms(100)
    assert q.counts == (2, 0, 0)
    assert first >> 48 in range(4)


@pytest.mark.rule("TXN-1")
def test_a_renewal_is_allowed_and_happens_at_once(q: Queue) -> None:
    token = q.take()
    q.bus.scheduler.advance_ms(30_000)
    assert q.ask("renew-lock", {"lock-tokens": Array(UUID_CODE, [token])})[0] == 200
    assert isinstance(q.client.discharge(q.txn_id, fail=True), Accepted)
    q.bus.scheduler.advance_ms(31_000)
    assert q.counts == (1, 0, 1)


@pytest.mark.parametrize(
    "operation", ["peek-message", "receive-by-sequence-number", "batch-delete-messages", "dance"]
)
def test_other_operations_are_refused_with_a_text(q: Queue, operation: str) -> None:
    status, answer = q.ask(operation, {})
    assert status == 400
    assert re.search(rb"cannot be part of a transaction", answer)
    assert refused(q.commit())[0] == "amqp:transaction:rollback"


@pytest.mark.parametrize(
    ("spec", "status", "text"),
    [
        (QueueSpec(enable_partitioning=True, fragments=4), 400, b"SEED-74"),
        (QueueSpec(), 501, b"only outside transactions"),
    ],
)
def test_rules_are_changed_outside_of_transactions(
    spec: QueueSpec, status: int, text: bytes
) -> None:
    answer = Queue(spec).ask("add-rule", {})
    assert answer[0] == status and text in answer[1]


def test_a_request_of_an_unknown_transaction_is_refused(q: Queue) -> None:
    link = q.client.link("q/$management", sends=True)
    state = q.client.send(link, plain(1), b"unknown")
    assert refused(state)[0] == "amqp:transaction:unknown-id"
