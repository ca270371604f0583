"""A generic AMQP client (Qpid Proton): outcomes, credit, drain, pre-settled sends, tokens."""

import uuid

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException, Delivery, LinkException, Message, int32, symbol, timestamp
from proton.reactor import AtLeastOnce
from proton.utils import LinkDetached

from support.namespace import POLICIES, QUEUE_POLICIES, Queues
from support.proton.client import (
    ENQUEUED_TIME,
    LOCK_TOKEN,
    LOCKED_UNTIL,
    SEQUENCE_NUMBER,
    Client,
)
from support.proton.tokens import put_token
from support.sas import sas_token
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")


@pytest.mark.rule("SAS-9", "SEED-79", "SEED-80")
def test_plain_send_receive_accept(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue, credit=1)
        ((message, delivery),) = receiver.wait_for(1)
        assert message.body == "one"
        assert receiver.settle(delivery, Delivery.ACCEPTED).remote_state == Delivery.ACCEPTED
        receiver.close()
        assert [message.body for message in client.take(queue, 1)] == ["two"]


@pytest.mark.rule("SAS-9")
@pytest.mark.parametrize(
    ("user", "password"), [("RootManageSharedAccessKey", "x"), ("Nobody", "x")]
)
def test_plain_with_a_wrong_key_is_refused(server: ServerProcess, user: str, password: str) -> None:
    with (
        pytest.raises(ConnectionException, match="amqp:unauthorized-access"),
        Client(server, user=user, password=password),
    ):
        pass


@pytest.mark.rule("SAS-8", "SAS-9", "ERR-12")
def test_plain_gives_the_rights_of_the_policy(server: ServerProcess, queue: str) -> None:
    key, _ = POLICIES["NamespaceSend"]
    with Client(server, user="NamespaceSend", password=key) as client:
        client.send(queue, "allowed")
        with pytest.raises(LinkException):
            client.receiver(queue)


@pytest.mark.rule("SEED-91", "AMQ-3")
def test_pre_settled_sends_are_kept(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        sender = client.sender(queue, pre_settled=True)
        for number in range(20):
            sender.send(Message(body=number))
        assert [message.body for message in client.take(queue, 20)] == list(range(20))


@pytest.mark.rule("SEED-85", "SEED-86")
def test_many_sends_on_the_wire_are_each_answered(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        link = client.sender(queue).link
        pending: list[Delivery] = []
        for number in range(500):
            client.wait(lambda: link.credit > 0, "credit to send")
            pending.append(link.send(Message(body=number)))
        client.wait(lambda: all(delivery.settled for delivery in pending), "acceptance")
        assert {delivery.remote_state for delivery in pending} == {Delivery.ACCEPTED}
        assert [message.body for message in client.take(queue, 500)] == list(range(500))


@pytest.mark.rule("PRE-5", "PRE-1")
def test_no_more_than_the_credit_is_delivered(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, *range(10))
        receiver = client.receiver(queue, credit=3)
        assert [message.body for message, _ in receiver.wait_for(3)] == [0, 1, 2]
        # A round trip on the same connection: what was sent before it would have arrived.
        client.send(queue, "round trip")
        assert receiver.arrived == 0
        receiver.link.flow(2)
        assert [message.body for message, _ in receiver.wait_for(2)] == [3, 4]


def test_drain_is_answered_with_what_there_is(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue)
        receiver.link.drain(5)
        client.wait(lambda: receiver.link.credit == 0, "the answer to drain")
        assert [message.body for message, _ in receiver.wait_for(2)] == ["one", "two"]
        client.send(queue, "three")
        assert receiver.arrived == 0


@pytest.mark.rule("MSG-2", "SEQ-1", "DLV-1")
def test_a_delivery_carries_what_the_service_promises(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue, credit=2)
        (first, _), (second, _) = receiver.wait_for(2)
        for message in (first, second):
            assert isinstance(message.annotations[ENQUEUED_TIME], timestamp)
            assert message.annotations[LOCKED_UNTIL] > message.annotations[ENQUEUED_TIME]
            assert isinstance(message.instructions[LOCK_TOKEN], uuid.UUID)
            assert message.delivery_count == 0
            assert message.id, "a message without an id gets one"
        numbers = [message.annotations[SEQUENCE_NUMBER] for message in (first, second)]
        assert numbers[1] == numbers[0] + 1


@pytest.mark.rule("MSG-1", "MSG-6")
@pytest.mark.parametrize(
    "body",
    ["text", b"bytes", 42, None, {"a": 1}, [1, "two"], uuid.UUID(int=7), 1.5, symbol("s")],
    ids=repr,
)
def test_any_body_comes_back_as_it_was_sent(
    server: ServerProcess, queue: str, body: object
) -> None:
    with Client(server) as client:
        client.send(queue, body)
        (message,) = client.take(queue, 1)
        # Proton hands binary out as a view of its buffer.
        received = bytes(message.body) if isinstance(message.body, memoryview) else message.body
        assert (type(received), received) == (type(body), body)


@pytest.mark.rule("MSG-1", "MSG-2", "MSG-5")
def test_sections_come_back_as_they_were_sent(server: ServerProcess, queue: str) -> None:
    sent = Message(
        body=b"\x00\x01",
        inferred=True,
        id=uuid.UUID("065e3137-e376-41a9-9b59-11f98bb70993"),
        correlation_id=7,
        user_id=b"user",
        subject="subject",
        content_encoding=symbol("gzip"),
        creation_time=1.5,
        group_id="group",
        group_sequence=3,
        priority=7,
        annotations={symbol("x-own"): "kept"},
        properties={"int": int32(-5), "binary": b"b", "symbol": symbol("s"), "time": timestamp(5)},
    )
    with Client(server) as client:
        client.sender(queue).send(sent)
        (received,) = client.take(queue, 1)
    assert received.annotations[symbol("x-own")] == "kept"
    assert received.properties == sent.properties
    for name in (
        "body",
        "id",
        "correlation_id",
        "user_id",
        "subject",
        "content_encoding",
        "creation_time",
        "group_id",
        "group_sequence",
        "priority",
    ):
        assert getattr(received, name) == getattr(sent, name), name


@pytest.mark.rule("AMQ-2", "CON-27", "DLV-1", "DLV-5")
def test_released_does_not_count_and_modified_does(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue, credit=1)
        counts = []
        for outcome in (Delivery.RELEASED, Delivery.MODIFIED, Delivery.RELEASED, Delivery.ACCEPTED):
            ((message, delivery),) = receiver.wait_for(1)
            assert message.body == "one"
            counts.append(message.delivery_count)
            assert receiver.settle(delivery, outcome).remote_state == outcome
            receiver.link.flow(1)
        assert counts == [0, 0, 1, 1]
        ((message, _),) = receiver.wait_for(1)
        assert message.body == "two"


@pytest.mark.rule("AMQ-2", "LCK-10")
def test_abandon_may_change_application_properties(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.sender(queue).send(Message(body="one", properties={"kept": 1, "tries": 1}))
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        delivery.local.annotations = {symbol("tries"): 2, symbol("added"): "yes"}
        receiver.settle(delivery, Delivery.MODIFIED)
        receiver.link.flow(1)
        ((message, _),) = receiver.wait_for(1)
        assert message.properties == {"kept": 1, "tries": 2, "added": "yes"}


@pytest.mark.rule("SEED-101", "AMQ-2", "DLQ-5")
def test_rejected_is_dead_lettering(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "bad")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        answer = receiver.settle(delivery, Delivery.REJECTED)
        assert (answer.remote_state, answer.remote.condition) == (Delivery.REJECTED, None)
        (dead,) = client.take(f"{queue}/$DeadLetterQueue", 1)
        assert dead.body == "bad"


@pytest.mark.rule("LCK-5", "SEED-103", "SEED-108", "ERR-4", "ERR-22")
def test_settling_with_a_lost_lock_is_refused_and_changes_nothing(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    with Client(server) as client:
        client.send(queue, "one")
        loser = client.receiver(queue, credit=1)
        ((_, lost),) = loser.wait_for(1)
        holder = client.receiver(queue, credit=1)
        ((message, held),) = holder.wait_for(1)
        assert message.delivery_count == 1
        answer = loser.settle(lost, Delivery.ACCEPTED)
        assert answer.remote_state == Delivery.REJECTED
        assert answer.remote.condition.name == "com.microsoft:message-lock-lost"
        assert "TrackingId:" in answer.remote.condition.description
        assert holder.settle(held, Delivery.RELEASED).remote_state in (
            Delivery.RELEASED,
            Delivery.REJECTED,  # on a slow machine this lock may have lapsed too
        )
        ((message),) = client.take(queue, 1)
        assert message.body == "one"


def test_a_receiver_that_settles_first_needs_no_answer(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, "one", "two")
        receiver = client.receiver(queue, credit=1, option=AtLeastOnce())
        ((message, delivery),) = receiver.wait_for(1)
        assert message.body == "one"
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        receiver.close()
        assert [message.body for message in client.take(queue, 1)] == ["two"]


@pytest.mark.rule("ERR-8", "MSG-3")
def test_an_oversized_message_is_rejected_and_its_link_goes_on(
    server: ServerProcess, queue: str
) -> None:
    # Not a detach: the stock clients learn the reason only from the outcome of the delivery.
    with Client(server) as client:
        link = client.sender(queue).link
        assert link.remote_max_message_size > 0
        client.wait(lambda: link.credit > 0, "credit to send")
        delivery = link.send(Message(body=b"x" * (link.remote_max_message_size + 1)))
        client.wait(lambda: bool(delivery.settled), "the refusal")
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:link:message-size-exceeded"
        small = link.send(Message(body="small"))
        client.wait(lambda: bool(small.settled), "acceptance")
        assert [message.body for message in client.take(queue, 1)] == ["small"]


def test_a_message_that_is_no_message_is_rejected(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        link = client.sender(queue).link
        client.wait(lambda: link.credit > 0, "credit to send")
        delivery = link.delivery("broken")
        link.stream(b"\x00\x53\x77\xff\xff\xff")
        link.advance()
        client.wait(lambda: bool(delivery.settled), "the refusal")
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:decode-error"
        client.send(queue, "whole")
        assert [message.body for message in client.take(queue, 1)] == ["whole"]


# --- tokens ---------------------------------------------------------------------------------


@pytest.mark.rule("SAS-5", "SAS-9")
def test_a_token_opens_links(server: ServerProcess, queue: str) -> None:
    audience = f"sb://anything.example/{queue}"
    with Client(server, mechanism="ANONYMOUS") as client:
        assert put_token(client, audience, sas_token(audience)) in (200, 202)
        client.send(queue, "allowed")


@pytest.mark.rule("SAS-9", "ERR-12")
def test_no_token_no_link(server: ServerProcess, queue: str) -> None:
    with Client(server, mechanism="ANONYMOUS") as client:
        with pytest.raises(LinkException) as refusal:
            client.sender(queue)
        assert "amqp:unauthorized-access" in str(refusal.value)
        with pytest.raises(LinkException):
            client.receiver(queue)


def test_a_token_for_one_queue_opens_no_other(
    server: ServerProcess, queue: str, queues: Queues
) -> None:
    audience = f"sb://localhost/{queue}"
    with Client(server, mechanism="ANONYMOUS") as client:
        assert put_token(client, audience, sas_token(audience)) in (200, 202)
        with pytest.raises(LinkException):
            client.sender(queues.fresh())


def test_bad_tokens_are_refused_with_401(server: ServerProcess, queue: str) -> None:
    audience = f"sb://localhost/{queue}"
    key, _ = QUEUE_POLICIES["QueueSend"]
    bad = {
        "expired": sas_token(audience, lifetime_seconds=-1),
        "signature": sas_token(audience, key="wrong"),
        "audience": sas_token("sb://localhost/other"),
        "policy of another queue": sas_token(audience, policy="QueueSend", key=key),
        "garbage": "SharedAccessSignature nonsense",
    }
    with Client(server, mechanism="ANONYMOUS") as client:
        statuses = {name: put_token(client, audience, token) for name, token in bad.items()}
    assert statuses == dict.fromkeys(bad, 401)


@pytest.mark.rule("SAS-10")
def test_links_end_when_their_token_does(server: ServerProcess, queue: str) -> None:
    audience = f"sb://localhost/{queue}"
    with Client(server, mechanism="ANONYMOUS") as client:
        put_token(client, audience, sas_token(audience, lifetime_seconds=2))
        link = client.sender(queue).link
        with pytest.raises(LinkDetached) as dropped:
            client.wait(lambda: False, "the link to be dropped")
        assert dropped.value.condition == "amqp:unauthorized-access"
        assert link.state & link.REMOTE_CLOSED


@pytest.mark.rule("SAS-10")
def test_a_renewed_token_keeps_its_links(server: ServerProcess, queue: str) -> None:
    audience = f"sb://localhost/{queue}"
    with Client(server, mechanism="ANONYMOUS") as client:
        put_token(client, audience, sas_token(audience, lifetime_seconds=2))
        kept = client.sender(queue)
        put_token(client, audience, sas_token(audience, lifetime_seconds=3600))
        # A second connection whose token is not renewed tells when the first one has run out.
        with Client(server, mechanism="ANONYMOUS") as other:
            put_token(other, audience, sas_token(audience, lifetime_seconds=3))
            other.sender(queue)
            with pytest.raises(LinkDetached):
                other.wait(lambda: False, "the link to be dropped")
        kept.send(Message(body="still here"))
