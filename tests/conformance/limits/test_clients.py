"""The limits on what clients ask for, reached over AMQP: one less is good, one more is refused."""

import contextlib
import http.client
from collections.abc import Callable

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException, Delivery, LinkException, Message

from adversity.waiting import wait_until
from conformance.rest.http_bus import HttpBus
from conformance.settlement.management import Management
from support.proton.client import Client
from support.proton.tokens import put_token
from support.proton.transactions import Transaction, refusal, taken
from support.sas import sas_token
from support.server import ServerProcess
from support.websocket_tunnel import WebSocketTunnel

pytestmark = pytest.mark.group("proton")

BUSY = "com.microsoft:server-busy"
QUOTA = "amqp:resource-limit-exceeded"


def can_connect(server: ServerProcess, port: int | None = None) -> bool:
    try:
        with Client(server, port=port):
            return True
    except ConnectionException:
        return False


@pytest.mark.rule("QTA-9")
def test_connections(server: ServerProcess, queue: str) -> None:
    """HTTP goes on, one more AMQP connection does not; one that goes makes room."""
    wait_until(lambda: can_connect(server), "connections of earlier tests have gone")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(4)]
        assert not can_connect(server)
        assert HttpBus(server.ready.http_port).send(queue, b"over HTTP").status == 201
        clients[0].send(queue, "over AMQP")
        clients[3].blocking.close()
        wait_until(lambda: can_connect(server), "there is room again")


@pytest.mark.rule("QTA-9")
def test_connections_over_websocket(server: ServerProcess) -> None:
    with WebSocketTunnel(server.ready.amqp_port) as tunnel:
        assert can_connect(server, tunnel.port)
    with contextlib.ExitStack() as stack:
        wait_until(lambda: can_connect(server), "the tunnel's has gone")
        for _ in range(4):
            stack.enter_context(Client(server))
        connection = http.client.HTTPConnection("localhost", server.ready.amqp_port, timeout=60)
        with contextlib.closing(connection):
            headers = {
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Protocol": "AMQPWSB10",
            }
            connection.request("GET", "/$servicebus/websocket", headers=headers)
            assert connection.getresponse().status == 503


@pytest.mark.rule("QTA-18")
def test_links_of_a_connection(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        senders = [client.sender(queue) for _ in range(8)]
        with pytest.raises(LinkException, match=QUOTA):
            client.sender(queue)
        senders.pop().close()
        client.sender(queue).send(Message(body="x"))


@pytest.mark.rule("SAS-9", "QTA-18")
def test_tokens_of_a_connection(server: ServerProcess) -> None:
    with Client(server, mechanism="ANONYMOUS") as client:

        def put(path: str) -> int:
            audience = f"sb://localhost/{path}"
            return put_token(client, audience, sas_token(audience))

        assert [put(path) for path in ("a", "b", "c")] == [202, 202, 202]
        assert put("d") == 403
        assert put("c") == 202, "a token that is renewed takes no room"


@pytest.mark.rule("QTA-10")
def test_receivers_of_a_queue(server: ServerProcess, queue: str) -> None:
    """Over all connections, dead letters included; one that goes makes room."""
    with Client(server) as client, Client(server) as other:
        first = client.receiver(queue)
        client.receiver(f"{queue}/$DeadLetterQueue")
        other.receiver(queue.upper())
        for refused in (client, other):
            with pytest.raises(LinkException, match=BUSY):
                refused.receiver(queue)
        first.close()
        other.receiver(queue)


@pytest.mark.rule("QTA-10")
def test_receivers_of_a_topic_are_those_of_its_subscriptions(server: ServerProcess) -> None:
    one, two = "topic/Subscriptions/one", "topic/Subscriptions/two"
    with Client(server) as client:
        with Client(server) as other:
            client.receiver(one)
            client.receiver(two)
            other.receiver(two)
            with pytest.raises(LinkException, match=BUSY):
                client.receiver(one)

        def has_room() -> bool:
            try:
                client.receiver(one).close()
            except LinkException:
                return False
            return True

        wait_until(has_room, "the receiver of the connection that was closed has gone")


@pytest.mark.rule("QTA-16")
def test_messages_of_a_peek_and_of_a_batch_delete(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, *range(12))
        node = Management(client, queue)
        assert len(node.peek(1000).messages()) == 5
        far_ms = 2**41
        refused = node.delete_batch(5, far_ms)
        assert (refused.status, refused.condition) == (400, "com.microsoft:argument-error")
        assert node.delete_batch(4, far_ms).body["message-count"] == 4


@pytest.mark.rule("QTA-15")
def test_messages_of_a_transaction(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        sender = client.sender(queue)
        transaction = Transaction(client)
        assert all(taken(transaction.send(sender, str(n))) for n in range(3))
        condition, text = refusal(transaction.send(sender, "one too many"))
        assert condition == QUOTA
        assert "more than 3 messages" in text
        transaction.roll_back()


@pytest.mark.rule("TXN-8")
def test_settlements_of_a_transaction(server: ServerProcess, queue: str) -> None:
    with Client(server) as client:
        client.send(queue, 1, 2, 3)
        receiver = client.receiver(queue, credit=3)
        transaction = Transaction(client)
        deliveries = [delivery for _, delivery in receiver.wait_for(3)]
        states = [transaction.settle(d, Delivery.ACCEPTED).remote_state for d in deliveries]
        assert states[2] == Delivery.REJECTED
        transaction.roll_back()


@pytest.mark.rule("QTA-6")
def test_sizes_of_messages(server: ServerProcess, fresh: Callable[[], str]) -> None:
    queue = fresh()
    bus = HttpBus(server.ready.http_port)
    assert bus.send(queue, bytes(900)).status == 201
    assert bus.send(queue, bytes(1025)).status == 403
    with Client(server) as client:
        client.send(queue, "x" * 1900)
        sender = client.sender(queue)
        client.wait(lambda: sender.link.credit > 0, "credit to send")
        delivery = sender.link.send(Message(body="x" * 2100))
        client.wait(lambda: bool(delivery.settled), "the answer")
        assert delivery.remote_state == Delivery.REJECTED
        assert delivery.remote.condition.name == "amqp:link:message-size-exceeded"
