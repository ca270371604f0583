"""The client against a bus of a few lines, over a real socket."""

import asyncio
from collections import deque

import pytest

from partibus.amqp.codec.sections import encode_application_properties
from partibus.amqp.codec.types import Int
from partibus.amqp.connection import Connection
from partibus.amqp.delivery import ACCEPTED, RELEASED, Released, rejected
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    DispositionReceived,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    TransferReceived,
)
from partibus.amqp.sasl import parse_plain
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import Target
from partibus.client.cbs import CBS, put_token, sas_token
from partibus.client.connection import BusClient
from partibus.client.errors import RemoteError
from partibus.client.requests import open_request_links
from partibus.control.access.sas import parse_token, verify

pytestmark = pytest.mark.timeout(30)


class TinyBus(asyncio.Protocol):
    """One queue for every address; refuses `nowhere`, the message `bad`, and locks lost."""

    def __init__(self) -> None:
        self.engine = Connection(ConnectionSettings(container_id="bus"), now_ms=0)
        self.queue: deque[bytes] = deque()
        self.lost: set[bytes] = set()
        self.most_in_flight = 0
        self.outcomes: list[object] = []
        self.receivers = []
        self._cbs = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        events = self.engine.receive_data(data, 0)
        transfers = [event for event in events if isinstance(event, TransferReceived)]
        self.most_in_flight = max(self.most_in_flight, len(transfers))
        for event in events:
            self.take(event)
        self.flush()

    def flush(self):
        self.transport.write(self.engine.data_to_send())
        if self.engine.closed:
            self.transport.close()

    def take(self, event):
        if isinstance(event, SaslInitReceived):
            plain = parse_plain(event.response)
            self.engine.sasl_outcome(event.mechanism == "ANONYMOUS" or plain == ("user", "key"))
        elif isinstance(event, OpenReceived):
            self.engine.open()
        elif isinstance(event, AttachReceived):
            self.attach(event.link)
        elif isinstance(event, TransferReceived):
            self.transfer(event)
        elif isinstance(event, FlowReceived):
            self.deliver(event.link)
        elif isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                self.settle(delivery, event)

    def attach(self, link):
        end = link.source if link.is_sender else link.target
        if end.address == "nowhere":
            link.refuse(AmqpError("amqp:not-found", "no such queue"))
            return
        link.accept()
        if not link.is_sender:
            link.set_credit(20)
        elif link.source.address == "$cbs":
            self._cbs = link
        else:
            self.receivers.append(link)

    def transfer(self, event):
        link = event.link
        if isinstance(link.target, Target) and link.target.address == "$cbs":
            status = 202 if b"sig=good" in event.payload else 401
            answer = encode_application_properties({"status-code": Int(status)})
            self._cbs.send(answer + b"\x00\x53\x77\x40", b"t", True, 0, None)
        elif event.payload == b"bad":
            link.settle(event.delivery_id, rejected(AmqpError("amqp:not-allowed", "bad")))
            return
        else:
            self.queue.append(event.payload)
            for waiting in self.receivers:
                self.deliver(waiting)
        link.settle(event.delivery_id, ACCEPTED)
        if link.credit < 10:
            link.set_credit(20)

    def deliver(self, link):
        settled = link.snd_settle_mode == 1
        while self.queue and link.sendable():
            payload = self.queue.popleft()
            link.send(payload, payload[:16], settled, 0, payload)
        if link.drain:
            link.drained()

    def settle(self, delivery, event):
        self.outcomes.append(event.state)
        if delivery.context in self.lost:
            error = AmqpError("com.microsoft:message-lock-lost", "lost")
            delivery.link.settle_sent(delivery, rejected(error))
        else:
            answer = RELEASED if isinstance(event.state, Released) else ACCEPTED
            delivery.link.settle_sent(delivery, answer)


class Running:
    def __init__(self, port, buses):
        self.port = port
        self.buses = buses

    def connect(self, **kwargs):
        return BusClient.connect("127.0.0.1", self.port, **kwargs)

    @property
    def bus(self):
        return self.buses[-1]


@pytest.fixture
async def running():
    buses: list[TinyBus] = []

    def made():
        buses.append(TinyBus())
        return buses[-1]

    server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
    yield Running(server.sockets[0].getsockname()[1], buses)
    server.close()
    for bus in buses:
        bus.transport.abort()


async def test_a_client_opens_and_closes(running):
    async with running.connect(user="user", password="key") as client:
        assert client.engine.remote_open.container_id == "bus"
    assert client.engine.closed
    assert running.bus.engine.closed


async def test_a_wrong_key_is_refused(running):
    with pytest.raises(RemoteError) as caught:
        async with running.connect(user="user", password="wrong"):
            pytest.fail("the connection must not open")
    assert caught.value.condition == "amqp:unauthorized-access"


async def test_messages_go_out_in_a_window_and_come_back(running):
    payloads = [b"%04d" % number + b"x" * 500 for number in range(1000)]
    async with running.connect() as client:
        sender = await client.sender("q")
        assert await sender.send_many(payloads, window=100) == 1000
        assert running.bus.most_in_flight > 1
        receiver = await client.receiver("q", prefetch=50)
        received = []
        while len(received) < 1000:
            batch = await receiver.receive(200)
            await receiver.settle(batch)
            received += [message.payload for message in batch]
        assert received == payloads
        assert len(running.bus.outcomes) == 1000
        await sender.close()
        await receiver.close()


async def test_credit_on_demand(running):
    async with running.connect() as client:
        sender = await client.sender("q")
        await sender.send_many([b"one", b"two", b"three"])
        receiver = await client.receiver("q")
        (message,) = await receiver.receive()
        assert (message.payload, message.tag, message.settled) == (b"one", b"one", False)
        assert list(running.bus.queue) == [b"two", b"three"]
        await receiver.settle([message], RELEASED)
        assert isinstance(running.bus.outcomes[0], Released)


async def test_receive_and_delete_needs_no_settlement(running):
    async with running.connect() as client:
        await (await client.sender("q")).send(b"one")
        receiver = await client.receiver("q", receive_and_delete=True)
        (message,) = await receiver.receive()
        assert message.settled
        await receiver.settle([message])
        assert running.bus.outcomes == []


async def test_a_refused_message_raises(running):
    async with running.connect() as client:
        sender = await client.sender("q")
        with pytest.raises(RemoteError, match="amqp:not-allowed: bad"):
            await sender.send_many([b"good", b"bad", b"good"])
        assert list(running.bus.queue) == [b"good", b"good"]
        await sender.send(b"good")


async def test_what_became_of_each_is_told_by_its_place(running):
    async with running.connect() as client:
        sender = await client.sender("q")
        outcomes = {}
        parcels = [(payload, 0) for payload in (b"good", b"bad", b"fine", b"bad")]
        await sender.offer(parcels, outcomes, window=2)
        assert sorted(outcomes) == [0, 1, 2, 3]
        assert (outcomes[0], outcomes[2]) == (None, None)
        assert outcomes[1].condition == outcomes[3].condition == "amqp:not-allowed"
        await sender.send(b"after")


async def test_a_lost_lock_raises(running):
    async with running.connect() as client:
        await (await client.sender("q")).send(b"one")
        receiver = await client.receiver("q")
        messages = await receiver.receive()
        running.bus.lost.add(b"one")
        with pytest.raises(RemoteError) as caught:
            await receiver.settle(messages)
        assert caught.value.condition == "com.microsoft:message-lock-lost"


async def test_a_refused_link_raises(running):
    async with running.connect() as client:
        with pytest.raises(RemoteError, match="no such queue"):
            await client.sender("nowhere")
        with pytest.raises(RemoteError, match="no such queue"):
            await client.receiver("nowhere")
        await (await client.sender("somewhere")).send(b"fine")


async def test_drain(running):
    async with running.connect() as client:
        receiver = await client.receiver("q", prefetch=10)
        await receiver.drain()
        assert receiver.link.credit == 0
        await (await client.sender("q")).send(b"one")
        assert (await receiver.receive())[0].payload == b"one"


async def test_a_waiting_receiver_learns_of_the_end(running):
    async with running.connect() as client:
        receiver = await client.receiver("q", prefetch=1)
        waiting = asyncio.ensure_future(receiver.receive())
        running.bus.engine.close(AmqpError("amqp:connection:forced", "stopping"))
        running.bus.flush()
        with pytest.raises(RemoteError, match="stopping"):
            await waiting
        with pytest.raises(RemoteError):
            await client.sender("q")


async def test_a_waiting_receiver_learns_of_a_cut(running):
    async with running.connect() as client:
        receiver = await client.receiver("q", prefetch=1)
        waiting = asyncio.ensure_future(receiver.receive())
        running.bus.transport.abort()
        with pytest.raises(RemoteError, match="lost"):
            await waiting


async def test_a_cancelled_receive_leaves_the_receiver_usable(running):
    async with running.connect() as client:
        receiver = await client.receiver("q", prefetch=1)
        waiting = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await (await client.sender("q")).send(b"one")
        assert (await receiver.receive())[0].payload == b"one"


async def test_a_token_is_put(running):
    async with running.connect() as client:
        links = await open_request_links(client, CBS)
        await put_token(links, "sb://bus/q", "SharedAccessSignature sr=q&sig=good&se=1&skn=p")
        with pytest.raises(RemoteError, match="put-token"):
            await put_token(links, "sb://bus/q", "SharedAccessSignature sr=q&sig=evil&se=1")


def test_a_token_is_signed_over_the_encoded_audience():
    text = sas_token("sb://host/q 1", "policy", "key", 1700000000)
    token = parse_token(text)
    assert (token.resource_path, token.policy) == ("q 1", "policy")
    assert token.expires_ms == 1700000000_000
    assert verify(token, "key")
    assert not verify(token, "other")
