"""The engine as a server against Qpid Proton's engine as the client, without sockets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp import delivery as outcomes
from partibus.amqp.connection import Connection
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    EndReceived,
    Event,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    SessionFailed,
    TransferReceived,
)
from partibus.amqp.link import Link
from partibus.amqp.settings import ConnectionSettings
from support.amqp.engines import of

proton = pytest.importorskip("proton")


class ProtonPair:
    """Proton on one side, our engine on the other, and a wire without delay."""

    def __init__(self, *, frame_size: int = 16384, window: int = 5000, sasl: bool = True) -> None:
        self.connection = proton.Connection()
        self.connection.container = "proton"
        self.connection.hostname = "bus"
        self.transport = proton.Transport()
        self.transport.max_frame_size = frame_size
        self.transport.idle_timeout = 60
        if sasl:
            self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.transport.bind(self.connection)
        self.engine = Connection(
            ConnectionSettings(
                container_id="server", max_frame_size=frame_size, incoming_window=window
            ),
            now_ms=0,
        )
        self.events: list[Event] = []

    def pump(self) -> list[Event]:
        """Carry bytes until neither side has any; what our engine reported is returned."""
        seen: list[Event] = []
        while True:
            pending = self.transport.pending()
            data = bytes(self.transport.peek(pending)) if pending > 0 else b""
            if data:
                self.transport.pop(len(data))
                seen += self._take(self.engine.receive_data(data, 0))
            output = self.engine.data_to_send()
            at = 0
            while at < len(output):
                piece = output[at : at + self.transport.capacity()]
                self.transport.push(piece)
                at += len(piece)
            if not data and not output:
                break
        assert not of(ConnectionFailed, seen), seen
        assert not of(SessionFailed, seen), seen
        assert self.transport.condition is None, self.transport.condition
        return seen

    def _take(self, pending: list[Event]) -> list[Event]:
        seen: list[Event] = []
        while pending:
            event = pending.pop(0)
            seen.append(event)
            if isinstance(event, SaslInitReceived):
                pending.extend(self.engine.sasl_outcome(True))
            elif isinstance(event, OpenReceived):
                self.engine.open()
        return seen

    def opened(self) -> "ProtonPair":
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()
        self.pump()
        return self

    def sender(self, name: str = "sender") -> tuple[object, Link]:
        """A link on which Proton sends."""
        sender = self.session.sender(name)
        sender.target.address = "queue"
        sender.open()
        (event,) = of(AttachReceived, self.pump())
        event.link.accept()
        self.pump()
        return sender, event.link

    def receiver(self, name: str = "receiver") -> tuple[object, Link]:
        receiver = self.session.receiver(name)
        receiver.source.address = "queue"
        receiver.open()
        (event,) = of(AttachReceived, self.pump())
        event.link.accept()
        self.pump()
        return receiver, event.link


ACTIVE = proton.Endpoint.LOCAL_ACTIVE | proton.Endpoint.REMOTE_ACTIVE


@pytest.mark.parametrize("sasl", [True, False])
def test_the_handshake(sasl):
    pair = ProtonPair(sasl=sasl)
    pair.connection.open()
    events = pair.pump()
    (event,) = of(OpenReceived, events)
    assert event.frame.container_id == "proton"
    assert event.frame.hostname == "bus"
    assert pair.connection.state == ACTIVE
    assert pair.connection.remote_container == "server"
    assert pair.transport.remote_max_frame_size == 16384
    pair.connection.close()
    assert len(of(CloseReceived, pair.pump())) == 1
    assert pair.engine.closed
    assert pair.connection.state == proton.Endpoint.LOCAL_CLOSED | proton.Endpoint.REMOTE_CLOSED


def test_everything_pipelined_in_one_go():
    pair = ProtonPair(sasl=False)
    pair.connection.open()
    session = pair.connection.session()
    session.open()
    sender = session.sender("s")
    sender.target.address = "queue"
    sender.open()
    receiver = session.receiver("r")
    receiver.source.address = "queue"
    receiver.open()
    receiver.flow(3)
    events = pair.pump()
    links = [event.link for event in of(AttachReceived, events)]
    assert [(link.name, link.is_sender) for link in links] == [("s", False), ("r", True)]
    for link in links:
        link.accept()
    pair.pump()
    assert sender.state == receiver.state == ACTIVE
    assert links[1].sendable() == 3


def test_both_ends_are_echoed():
    pair = ProtonPair().opened()
    receiver = pair.session.receiver("r")
    receiver.source.address = "queue"
    receiver.target.address = "mine"
    receiver.snd_settle_mode = proton.Link.SND_SETTLED
    receiver.rcv_settle_mode = proton.Link.RCV_SECOND
    receiver.open()
    (event,) = of(AttachReceived, pair.pump())
    link = event.link
    assert (link.source.address, link.target.address) == ("queue", "mine")
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (1, 1)
    link.accept(max_message_size=12345, properties={"key": "value"})
    pair.pump()
    assert receiver.remote_source.address == "queue"
    assert receiver.remote_target.address == "mine"
    assert receiver.remote_snd_settle_mode == proton.Link.SND_SETTLED
    assert receiver.remote_rcv_settle_mode == proton.Link.RCV_SECOND
    assert receiver.remote_max_message_size == 12345
    assert receiver.remote_properties == {"key": "value"}


def test_a_refused_link():
    pair = ProtonPair().opened()
    sender = pair.session.sender("s")
    sender.target.address = "nowhere"
    sender.open()
    (event,) = of(AttachReceived, pair.pump())
    event.link.refuse(AmqpError("amqp:not-found", "no such queue", {"hint": "create it"}))
    pair.pump()
    assert sender.remote_target.address is None
    assert sender.remote_condition.name == "amqp:not-found"
    assert sender.remote_condition.description == "no such queue"
    assert sender.remote_condition.info == {"hint": "create it"}
    sender.close()
    assert len(of(DetachReceived, pair.pump())) == 1
    assert not pair.engine.sessions[0].links


@given(
    sizes=st.lists(st.sampled_from([0, 1, 255, 256, 1000, 5000, 20_000]), min_size=1, max_size=12),
    frame_size=st.sampled_from([512, 1024, 65536]),
    window=st.sampled_from([3, 5000]),
    settled=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_proton_sends(sizes, frame_size, window, settled):
    pair = ProtonPair(frame_size=frame_size, window=window).opened()
    sender, link = pair.sender()
    link.set_credit(len(sizes))
    pair.pump()
    assert sender.credit == len(sizes)
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    deliveries = []
    for number, payload in enumerate(payloads):
        deliveries.append(sender.delivery(f"tag-{number}"))
        sender.send(payload)
        if settled:
            deliveries[-1].settle()
        sender.advance()
    received = of(TransferReceived, pair.pump())
    assert [event.payload for event in received] == payloads
    assert [event.tag for event in received] == [b"tag-%d" % n for n in range(len(sizes))]
    assert [event.settled for event in received] == [settled] * len(sizes)
    assert link.credit == sender.credit == 0
    if settled:
        return
    for number, event in enumerate(received):
        state = (
            outcomes.ACCEPTED
            if number % 3
            else outcomes.rejected(AmqpError("amqp:not-allowed", "third"))
        )
        link.settle(event.delivery_id, state)
    pair.pump()
    assert all(delivery.settled for delivery in deliveries)
    expected = [
        proton.Delivery.ACCEPTED if number % 3 else proton.Delivery.REJECTED
        for number in range(len(sizes))
    ]
    assert [delivery.remote_state for delivery in deliveries] == expected
    assert deliveries[0].remote.condition.name == "amqp:not-allowed"


@given(
    sizes=st.lists(st.sampled_from([0, 1, 255, 256, 1000, 5000, 20_000]), min_size=1, max_size=12),
    frame_size=st.sampled_from([512, 1024, 65536]),
    settled=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_proton_receives(sizes, frame_size, settled):
    pair = ProtonPair(frame_size=frame_size).opened()
    receiver, link = pair.receiver()
    receiver.flow(len(sizes) + 2)
    (event,) = of(FlowReceived, pair.pump())
    assert event.link is link
    assert link.sendable() == len(sizes) + 2
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    sent = [
        link.send(payload, b"tag-%d" % number, settled, 0, number)
        for number, payload in enumerate(payloads)
    ]
    pair.pump()
    assert [delivery.delivery_id for delivery in sent] == list(range(1, len(sizes) + 1))
    deliveries = []
    for number, payload in enumerate(payloads):
        delivery = receiver.current
        assert delivery is not None
        assert delivery.tag == f"tag-{number}"
        assert not delivery.partial
        assert delivery.settled == settled
        assert (receiver.recv(100_000) or b"") == payload
        receiver.advance()
        deliveries.append(delivery)
    assert link.sendable() == 2
    if settled:
        return
    # Half in one step, half in two: the server settles what the client only proposes.
    for number, delivery in enumerate(deliveries):
        delivery.update(proton.Delivery.ACCEPTED if number % 2 else proton.Delivery.RELEASED)
        if number % 2:
            delivery.settle()
    events = of(DispositionReceived, pair.pump())
    reported = {delivery.context: event for event in events for delivery in event.deliveries}
    assert sorted(reported) == list(range(len(sizes)))
    for number, event in reported.items():
        assert event.settled == bool(number % 2)
        kind = outcomes.Accepted if number % 2 else outcomes.Released
        assert isinstance(event.state, kind)
        if not number % 2:
            link.settle_sent(sent[number], outcomes.RELEASED)
    pair.pump()
    assert all(delivery.settled for delivery in deliveries[::2])
    assert not link.session.outgoing.unsettled


def test_proton_modifies_and_rejects():
    pair = ProtonPair().opened()
    receiver, link = pair.receiver()
    receiver.flow(2)
    pair.pump()
    for number in range(2):
        link.send(b"m", b"%d" % number, False, 0, number)
    pair.pump()
    modified = receiver.current
    receiver.recv(10)
    modified.local.failed = True
    modified.local.undeliverable = True
    modified.local.annotations = {"key": "value"}
    modified.update(proton.Delivery.MODIFIED)
    receiver.advance()
    rejected = receiver.current
    receiver.recv(10)
    rejected.local.condition = proton.Condition("com.microsoft:dead-letter", "bad", {"k": "v"})
    rejected.update(proton.Delivery.REJECTED)
    receiver.advance()
    first, second = of(DispositionReceived, pair.pump())
    assert (first.state.delivery_failed, first.state.undeliverable_here) == (True, True)
    assert first.state.annotations == {"key": "value"}
    assert second.state.error.condition == "com.microsoft:dead-letter"
    assert second.state.error.description == "bad"
    assert second.state.error.info == {"k": "v"}


def test_proton_drains():
    pair = ProtonPair().opened()
    receiver, link = pair.receiver()
    receiver.drain(10)
    (event,) = of(FlowReceived, pair.pump())
    assert event.link.drain
    link.send(b"only", b"t", True, 0, None)
    link.drained()
    pair.pump()
    assert receiver.recv(10) == b"only"
    receiver.advance()
    assert receiver.credit == 0
    assert receiver.drained() == 9
    receiver.flow(4)
    pair.pump()
    assert link.sendable() == 4


def test_we_drain_proton():
    pair = ProtonPair().opened()
    sender, link = pair.sender()
    link.set_credit(5, drain=True)
    pair.pump()
    assert sender.credit == 5
    assert sender.drain_mode
    sender.delivery("t")
    sender.send(b"m")
    sender.advance()
    sender.drained()
    events = pair.pump()
    assert [type(event) for event in events] == [TransferReceived, FlowReceived]
    assert (link.credit, link.drain, link.delivery_count) == (0, False, 5)


def test_an_aborted_delivery_of_proton():
    pair = ProtonPair(frame_size=512).opened()
    sender, link = pair.sender()
    link.set_credit(5)
    pair.pump()
    aborted = sender.delivery("aborted")
    sender.stream(b"x" * 2000)
    assert of(TransferReceived, pair.pump()) == []
    assert pair.engine.unfinished.bytes_held > 0
    aborted.abort()
    pair.pump()
    assert pair.engine.unfinished.bytes_held == 0
    sender.delivery("next")
    sender.send(b"next")
    sender.advance()
    (event,) = of(TransferReceived, pair.pump())
    assert event.payload == b"next"


def test_links_and_sessions_end_and_come_again():
    pair = ProtonPair().opened()
    for number in range(3):
        sender, link = pair.sender(f"same-{number % 2}")
        sender.close()
        (event,) = of(DetachReceived, pair.pump())
        assert (event.link, event.closed) == (link, True)
        assert sender.state == proton.Endpoint.LOCAL_CLOSED | proton.Endpoint.REMOTE_CLOSED
        sender.free()
        pair.pump()
    pair.session.close()
    (event,) = of(EndReceived, pair.pump())
    assert not pair.engine.sessions
    pair.session = pair.connection.session()
    pair.session.open()
    pair.sender("after")


def test_we_detach_proton():
    pair = ProtonPair().opened()
    sender, link = pair.sender()
    link.detach(AmqpError("amqp:link:detach-forced", "token expired"))
    pair.pump()
    assert sender.remote_condition.name == "amqp:link:detach-forced"
    sender.close()
    assert [type(event) for event in pair.pump()] == [DetachReceived]


def test_an_oversized_message_of_proton_is_rejected():
    pair = ProtonPair(frame_size=512).opened()
    sender, link = pair.sender()
    link.max_message_size = 1000
    link.set_credit(5)
    pair.pump()
    large = sender.delivery("large")
    sender.send(b"x" * 5000)
    sender.advance()
    sender.delivery("fine")
    sender.send(b"fine")
    sender.advance()
    (event,) = pair.pump()
    assert event.payload == b"fine"
    assert large.remote_state == proton.Delivery.REJECTED
    assert large.remote.condition.name == "amqp:link:message-size-exceeded"
    assert sender.credit == link.credit == 4


def test_many_messages_both_ways_in_one_session():
    pair = ProtonPair(window=50).opened()
    sender, in_link = pair.sender()
    receiver, out_link = pair.receiver()
    in_link.set_credit(600)
    receiver.flow(600)
    pair.pump()
    got = 0
    for round_number in range(30):
        sent = []
        for number in range(20):
            sent.append(sender.delivery(f"{round_number}-{number}"))
            sender.send(b"m%d" % number)
            sender.advance()
            out_link.send(b"o%d" % number, b"%d" % number, False, 0, None)
        for event in pair.pump():
            if isinstance(event, TransferReceived):
                in_link.settle(event.delivery_id, outcomes.ACCEPTED)
        for number in range(20):
            assert receiver.recv(10) == b"o%d" % number
            delivery = receiver.current
            delivery.update(proton.Delivery.ACCEPTED)
            delivery.settle()
            got += 1
        pair.pump()
        assert all(delivery.settled for delivery in sent)
    assert got == 600
    assert not out_link.session.outgoing.unsettled
