"""Transactions on an in-memory bus: time, limits, pipelined clients, control links."""

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.delivery import (
    MODIFIED_UNDELIVERABLE,
    RELEASED,
    Accepted,
    Modified,
    Rejected,
    TransactionalState,
)
from partibus.amqp.events import CloseReceived, DetachReceived, IncomingSettled
from partibus.domain.entity import QueueSpec
from partibus.domain.limits import BASIC
from partibus.gateway.links.inbound import BATCH_FORMAT, CREDIT
from partibus.gateway.transactions.open_transactions import OPEN_MAX
from partibus.testing.bus import BusBench
from support.gateway.messages import plain
from support.gateway.transaction_bench import (
    TransactionClient,
    declare_message,
    refused,
)

MINUTE_MS = 60_000


class Queue:
    """A bus with a queue and a client in its first transaction."""

    def __init__(self, spec: QueueSpec | None = None) -> None:
        self.bus = BusBench()
        (self.fragment,) = self.bus.queue("q", spec)
        self.bus.queue("other")
        self.client = TransactionClient(self.bus)
        self.sender = self.client.link("q", sends=True)
        self.txn_id = self.client.declare()

    @property
    def active(self) -> int:
        return self.fragment.machine.state.counts().active

    def send(self, number: int = 1) -> object:
        return self.client.send(self.sender, plain(number), self.txn_id)


@pytest.fixture
def q() -> Queue:
    return Queue()


def is_provisional(state: object) -> bool:
    return isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)


@pytest.mark.rule("TXN-2", "TXN-11")
def test_a_commit_makes_the_sends_visible(q: Queue) -> None:
    assert is_provisional(q.send())
    assert q.active == 0
    assert isinstance(q.client.discharge(q.txn_id), Accepted)
    assert q.active == 1


@pytest.mark.rule("TXN-7")
def test_a_transaction_ends_two_minutes_after_its_first_operation(q: Queue) -> None:
    q.bus.scheduler.advance_ms(MINUTE_MS)
    q.send()
    q.bus.scheduler.advance_ms(MINUTE_MS)
    q.client.client.run()
    q.bus.scheduler.advance_ms(MINUTE_MS - 1)
    assert is_provisional(q.send())
    q.bus.scheduler.advance_ms(1)
    condition, text = refused(q.send())
    assert condition == "amqp:transaction:timeout" and "120 seconds" in text
    condition, _ = refused(q.client.discharge(q.txn_id))
    assert condition == "amqp:transaction:timeout"
    assert q.active == 0


@pytest.mark.rule("TXN-7")
def test_what_a_timed_out_transaction_held_is_let_go_by_itself(q: Queue) -> None:
    q.send()
    transactions = q.client.client.connection.transactions
    (transaction,) = transactions._by_id.values()
    assert transaction.byte_count > 0
    q.bus.scheduler.advance_ms(2 * MINUTE_MS + 1000)
    assert transaction.byte_count == 0
    assert transactions.next_deadline_ms() is None


@pytest.mark.rule("TXN-8", "QTA-15")
def test_the_message_after_a_hundred_is_refused() -> None:
    q = Queue()
    for number in range(100):
        assert is_provisional(q.send(number))
    condition, text = refused(q.send())
    assert condition == "amqp:resource-limit-exceeded"
    assert "Cannot send more than 100 messages in a single transaction" in text
    condition, text = refused(q.client.discharge(q.txn_id))
    assert condition == "amqp:transaction:rollback" and "100 messages" in text
    assert q.active == 0


@pytest.mark.rule("TXN-8")
def test_a_batch_counts_as_its_messages(q: Queue) -> None:
    payloads = [plain(number) for number in range(60)]
    batch = b"".join(b"\x00\x53\x75\xb0" + len(p).to_bytes(4, "big") + p for p in payloads)
    first = q.client.send(q.sender, batch, q.txn_id, message_format=BATCH_FORMAT)
    assert is_provisional(first)
    second = q.client.send(q.sender, batch, q.txn_id, message_format=BATCH_FORMAT)
    assert refused(second)[0] == "amqp:resource-limit-exceeded"


@pytest.mark.rule("TXN-8")
def test_no_more_than_a_hundred_messages_are_settled(q: Queue) -> None:
    for number in range(101):
        q.client.client.send(q.sender, [plain(number)])
    q.client.outcomes()
    receiver = q.client.link("q", sends=False)
    events = q.client.receive(receiver, 101)
    for event in events[:100]:
        assert isinstance(q.client.settle(receiver, event, q.txn_id), TransactionalState)
    condition, text = refused(q.client.settle(receiver, events[100], q.txn_id))
    assert condition == "amqp:resource-limit-exceeded" and "100" in text


def test_bytes_in_memory_are_bounded() -> None:
    q = Queue(QueueSpec(max_message_size_in_kilobytes=102_400))
    large = plain(1, size=60_000_000)
    assert is_provisional(q.client.send(q.sender, large, q.txn_id))
    assert is_provisional(q.client.send(q.sender, large, q.txn_id))
    condition, _ = refused(q.client.send(q.sender, large, q.client.declare()))
    assert condition == "amqp:resource-limit-exceeded"
    assert isinstance(q.client.discharge(q.txn_id, fail=True), Accepted)
    assert is_provisional(q.client.send(q.sender, large, q.client.declare()))


def test_credit_comes_back_for_transactional_sends() -> None:
    q = Queue()
    for _ in range(CREDIT // 50 + 2):
        txn_id = q.client.declare()
        for number in range(50):
            q.client.send(q.sender, plain(number), txn_id)
        q.client.discharge(txn_id, fail=True)
    assert q.sender.credit > 0


# --- clients that do not wait -----------------------------------------------------------------


@pytest.mark.rule("TXN-2")
def test_a_commit_right_behind_its_work_waits_for_it(q: Queue) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    q.client.propose(receiver, event, q.txn_id)
    q.client.post(q.sender, plain(2), q.txn_id)
    q.client.discharge(q.txn_id, waits=False)
    q.client.discharge(q.txn_id, waits=False)
    q.client.client.run()
    conditions = [refused(s)[0] for s in q.client.outcomes() if isinstance(s, Rejected)]
    assert conditions == ["amqp:transaction:unknown-id"], "discharged once is enough"


@pytest.mark.rule("TXN-2")
def test_pipelined_work_is_done_as_a_whole(q: Queue) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    q.client.propose(receiver, event, q.txn_id)
    q.client.post(q.sender, plain(2), q.txn_id)
    q.client.discharge(q.txn_id, waits=False)
    q.client.client.run()
    states = q.client.outcomes()
    assert [type(state) for state in states] == [TransactionalState, Accepted]
    assert q.client.client.take(IncomingSettled)
    counts = q.fragment.machine.state.counts()
    assert (counts.active, counts.locked) == (1, 0)


@pytest.mark.rule("TXN-2", "TXN-12")
def test_a_client_that_did_not_look_at_a_refusal_gets_nothing(q: Queue) -> None:
    q.client.post(q.sender, plain(1), q.txn_id)
    q.client.post(q.sender, b"\x00\x53\x77\xff", q.txn_id)
    q.client.post(q.sender, plain(2), q.txn_id)
    q.client.discharge(q.txn_id, waits=False)
    q.client.client.run()
    first, second, third, end = q.client.outcomes()
    assert is_provisional(first)
    assert refused(second)[0] == "amqp:decode-error"
    assert refused(third)[0] == refused(end)[0] == "amqp:transaction:rollback"
    assert q.active == 0


def test_a_settled_send_that_is_refused_is_told_by_the_discharge(q: Queue) -> None:
    q.client.post(q.sender, plain(1), q.txn_id, settled=True)
    q.client.post(q.sender, b"\x00\x53\x77\xff", q.txn_id, settled=True)
    assert refused(q.client.discharge(q.txn_id))[0] == "amqp:transaction:rollback"
    assert q.active == 0


def test_a_lock_that_lapses_before_the_commit_rolls_it_back(q: Queue) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    assert isinstance(q.client.settle(receiver, event, q.txn_id), TransactionalState)
    q.send(2)
    q.bus.scheduler.advance_ms(MINUTE_MS + 1)
    condition, text = refused(q.client.discharge(q.txn_id))
    assert condition == "amqp:transaction:rollback" and "lock supplied is invalid" in text
    assert q.active == 1, "what was received waits again, what was sent is not there"


def test_a_lock_that_is_lost_is_told_at_once(q: Queue) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    q.bus.scheduler.advance_ms(MINUTE_MS + 1)
    condition, _ = refused(q.client.settle(receiver, event, q.txn_id))
    assert condition == "com.microsoft:message-lock-lost"
    assert refused(q.client.discharge(q.txn_id))[0] == "amqp:transaction:rollback"


@pytest.mark.parametrize("outcome", [RELEASED, MODIFIED_UNDELIVERABLE])
def test_released_and_deferred_messages_stay_locked_until_the_commit(
    q: Queue, outcome: bytes
) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    q.client.settle(receiver, event, q.txn_id, outcome)
    assert q.fragment.machine.state.counts().locked == 1
    assert isinstance(q.client.discharge(q.txn_id), Accepted)
    counts = q.fragment.machine.state.counts()
    assert (counts.locked, counts.deferred) == (0, int(outcome is MODIFIED_UNDELIVERABLE))


# --- control links --------------------------------------------------------------------------


@pytest.mark.rule("TXN-12")
def test_unknown_ids_are_refused_wherever_they_come(q: Queue) -> None:
    stranger = TransactionClient(q.bus)
    sender = stranger.link("q", sends=True)
    unknown = "amqp:transaction:unknown-id"
    assert refused(stranger.send(sender, plain(1), q.txn_id))[0] == unknown
    assert refused(stranger.discharge(q.txn_id))[0] == unknown
    assert refused(stranger.discharge(b""))[0] == unknown
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    assert refused(q.client.settle(receiver, event, b"?"))[0] == unknown
    assert isinstance(q.client.discharge(q.txn_id), Accepted)
    assert refused(q.client.discharge(q.txn_id))[0] == unknown


@pytest.mark.rule("TXN-11")
def test_closing_the_control_link_rolls_its_transactions_back(q: Queue) -> None:
    q.send()
    assert q.client.control is not None
    first, q.client.control = q.client.control, q.client.attach_control()
    kept = q.client.declare()
    assert is_provisional(q.client.send(q.sender, plain(7), kept))
    first.detach()
    q.client.client.run()
    assert refused(q.send())[0] == "amqp:transaction:unknown-id"
    assert isinstance(q.client.discharge(kept), Accepted)
    assert q.active == 1, "what another control link declared goes on"


@pytest.mark.rule("TXN-11")
def test_control_messages_must_not_be_settled(q: Queue) -> None:
    q.send()
    assert q.client.control is not None
    q.client.client.send(q.client.control, [declare_message()], settled=True)
    (detached,) = q.client.client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:not-allowed"
    assert refused(q.send())[0] == "amqp:transaction:unknown-id"


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (b"\x00\x53\x75\xa0\x01x", "amqp:decode-error"),
        (b"\x00\x53\x77" + encode_value("declare"), "amqp:decode-error"),
        (b"\x00\x53\x77\x00\x53\x31\xc0\x04\x01\xa0\x01x", "amqp:not-implemented"),
        (b"\x00\x53\x77\x00\x53\x32\x45", "com.microsoft:argument-error"),
    ],
)
def test_control_messages_that_say_nothing_are_refused(
    q: Queue, payload: bytes, condition: str
) -> None:
    assert q.client.control is not None
    q.client.client.send(q.client.control, [payload])
    (state,) = q.client.outcomes()
    assert refused(state)[0] == condition


def test_a_client_has_a_bounded_number_of_open_transactions(q: Queue) -> None:
    assert q.client.control is not None
    for _ in range(OPEN_MAX - 1):
        q.client.declare()
    q.client.client.send(q.client.control, [declare_message()])
    (state,) = q.client.outcomes()
    assert refused(state)[0] == "amqp:resource-limit-exceeded"
    q.client.discharge(q.txn_id)
    assert q.client.declare()


@pytest.mark.rule("TXN-11")
def test_a_lost_connection_rolls_back(q: Queue) -> None:
    q.send()
    q.client.client.connection.connection_lost()
    q.bus.scheduler.run()
    assert q.active == 0


def test_a_commit_whose_client_is_gone_is_still_whole(q: Queue) -> None:
    q.send(1)
    q.send(2)
    q.client.discharge(q.txn_id, waits=False)
    q.client.client.connection.connection_lost()
    q.bus.scheduler.run()
    assert q.active == 2


@pytest.mark.rule("TXN-18")
def test_there_are_no_transactions_in_the_basic_tier() -> None:
    bus = BusBench(profile=BASIC)
    client = TransactionClient(bus)
    (detached,) = client.client.take(DetachReceived)
    assert isinstance(detached, DetachReceived) and detached.error is not None
    assert detached.error.condition == "amqp:not-allowed"
    assert "Basic" in detached.error.description


@pytest.mark.rule("SAS-9")
def test_a_transaction_may_be_declared_before_the_first_token() -> None:
    """As Java's client does; its work needs a token, and so does the connection in 20 seconds."""
    bus = BusBench()
    client = TransactionClient(bus, attaches=False)
    client.client = bus.client(plain=False)
    client.control = client.attach_control()
    assert client.client.take(DetachReceived) == []
    assert client.declare()
    bus.scheduler.advance_ms(20_000)
    client.client.run()
    (closed,) = client.client.take(CloseReceived)
    assert isinstance(closed, CloseReceived) and closed.error is not None
    assert closed.error.condition == "amqp:unauthorized-access"


def test_a_store_that_fails_rolls_back_and_says_so(q: Queue) -> None:
    q.send()
    q.bus.stores[0].fail()
    condition, text = refused(q.client.discharge(q.txn_id))
    assert condition == "amqp:transaction:rollback" and "store" in text
    q.bus.stores[0].heal()
    q.bus.scheduler.run()
    assert q.active == 0


def test_an_outcome_of_a_settlement_is_needed_and_holds_no_other(q: Queue) -> None:
    from partibus.amqp.delivery import transactional_state

    q.client.client.send(q.sender, [plain(1), plain(2)])
    receiver = q.client.link("q", sends=False)
    first, second = q.client.receive(receiver, 2)
    q.client.outcomes()
    receiver.propose(first.delivery_id, transactional_state(q.txn_id))
    q.client.client.run()
    (answer,) = q.client.client.take(IncomingSettled)
    assert isinstance(answer, IncomingSettled)
    assert refused(answer.state)[0] == "com.microsoft:argument-error"
    nested = transactional_state(q.txn_id, transactional_state(q.txn_id))
    answer_state = q.client.settle(receiver, second, q.client.declare(), nested)
    assert refused(answer_state)[0] == "com.microsoft:argument-error"


def test_the_answer_to_a_settlement_has_its_outcome(q: Queue) -> None:
    q.client.client.send(q.sender, [plain(1)])
    receiver = q.client.link("q", sends=False)
    (event,) = q.client.receive(receiver, 1)
    q.client.outcomes()
    state = q.client.settle(receiver, event, q.txn_id, MODIFIED_UNDELIVERABLE)
    assert isinstance(state, TransactionalState) and state.txn_id == q.txn_id
    assert isinstance(state.outcome, Modified) and state.outcome.undeliverable_here
