"""The engine under any cut of its input, under noise, and under any order of work."""

from functools import cache
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.amqp.codec.encode import encode_described_list, encode_value
from partibus.amqp.codec.types import Described, Symbol, UByte, UInt, ULong
from partibus.amqp.connection import Connection
from partibus.amqp.delivery import ACCEPTED, MODIFIED, REJECTED, RELEASED
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DispositionReceived,
    EndReceived,
    Event,
    FlowReceived,
    IncomingSettled,
    LinkFailed,
    OpenReceived,
    SaslInitReceived,
    SessionFailed,
    TransferReceived,
)
from partibus.amqp.framing import AMQP_HEADER, SASL_HEADER, encode_frame
from partibus.amqp.settings import ConnectionSettings
from support.amqp.engines import Peers, RawPeer, attach_fields, frame, of, parse_frames

SERVER = ConnectionSettings(container_id="server", max_frame_size=4096, incoming_window=20)


def drive(engine: Connection, data: bytes) -> list[Event]:
    """Feed bytes and answer as a server would, at once."""
    seen: list[Event] = []
    pending = engine.receive_data(data, 0)
    while pending:
        event = pending.pop(0)
        seen.append(event)
        if isinstance(event, SaslInitReceived):
            pending.extend(engine.sasl_outcome(True))
        elif isinstance(event, OpenReceived):
            engine.open()
        elif isinstance(event, AttachReceived):
            event.link.accept()
            if not event.link.is_sender:
                event.link.set_credit(100)
        elif isinstance(event, TransferReceived):
            event.link.settle(event.delivery_id, ACCEPTED)
        elif isinstance(event, FlowReceived) and event.link.drain:
            event.link.drained()
    return seen


# --- any cut gives the same events ------------------------------------------------------------


@cache
def recorded() -> tuple[bytes, ...]:
    """What a lively client writes from its first byte to its last, one item per write."""
    peers = Peers(
        client=ConnectionSettings(container_id="client", max_frame_size=4096),
        server=SERVER,
    )
    written: list[bytes] = []

    def exchange() -> None:
        while peers.client.has_output or peers.server.has_output:
            data = peers.client.data_to_send()
            if data:
                written.append(data)
            for event in drive(peers.server, data):
                send_back(event)
            for event in peers.client.receive_data(peers.server.data_to_send(), 0):
                if isinstance(event, TransferReceived):
                    event.link.propose(event.delivery_id, MODIFIED)

    peers.client.sasl_plain("user", "password")
    peers.client.open()
    exchange()
    session = peers.client.begin()
    sender = session.attach("s", is_sender=True, source=b"\x40", target=b"\x40")
    receiver = session.attach("r", is_sender=False, source=b"\x40", target=b"\x40")
    receiver.set_credit(2)
    exchange()
    for size in (0, 10, 4000, 9000, 300):
        sender.send(b"p" * size, b"tag%d" % size, size == 10, 0, None)
    exchange()
    receiver.set_credit(5, drain=True)
    exchange()
    sender.detach(AmqpError("amqp:internal-error", "enough"))
    exchange()
    session.end()
    other = peers.client.begin()
    exchange()
    assert other.active
    peers.client.close()
    exchange()
    assert peers.server.closed
    return tuple(written)


def send_back(event: Event) -> None:
    """A server that answers credit with a message of several frames."""
    if isinstance(event, FlowReceived) and event.link.sendable():
        event.link.send(b"out" * 2000, b"tag", False, 0, None)


def replay(cuts: set[int]) -> tuple[list[str], list[tuple[int, int, list[object]]]]:
    """Events and answers of a listener that reads the recording with these cuts in it."""
    engine = Connection(SERVER, now_ms=0)
    events: list[str] = []
    output: list[bytes] = []
    start = 0
    for write in recorded():
        places = sorted({0, len(write), *(c - start for c in cuts if 0 < c - start < len(write))})
        start += len(write)
        for here, there in pairwise(places):
            for event in drive(engine, write[here:there]):
                events.append(repr(event))
                send_back(event)
            output.append(engine.data_to_send())
    # Settlements are gathered per write, so their ranges do depend on the cuts.
    frames = parse_frames(b"".join(output))
    return events, [frame for frame in frames if frame[1] != 0x15]


@cache
def replayed() -> tuple[list[str], list[tuple[int, int, list[object]]]]:
    return replay(set())


def length() -> int:
    return sum(len(write) for write in recorded())


@given(cuts=st.sets(st.integers(0, length()), max_size=60))
@settings(deadline=None, max_examples=150)
def test_any_cut_of_the_input_gives_the_same_events_and_answers(cuts):
    assert replay(cuts) == replayed()


def test_one_byte_at_a_time_gives_the_same_events_and_answers():
    assert replay(set(range(length()))) == replayed()
    kinds = {text.partition("(")[0] for text in replayed()[0]}
    assert kinds >= {
        "TransferReceived", "FlowReceived", "DispositionReceived", "DetachReceived",
        "EndReceived", "CloseReceived",
    }  # fmt: skip
    assert not any("Failed" in text for text in replayed()[0])


# --- noise ------------------------------------------------------------------------------------

BEGIN = frame(1, 0x11, None, UInt(0), UInt(100), UInt(100))
PREFIXES = [
    b"",
    SASL_HEADER,
    AMQP_HEADER,
    AMQP_HEADER + frame(0, 0x10, "peer"),
    AMQP_HEADER + frame(0, 0x10, "peer") + BEGIN,
    AMQP_HEADER
    + frame(0, 0x10, "peer")
    + BEGIN
    + frame(1, 0x12, *attach_fields("in", 0, False))
    + frame(1, 0x12, *attach_fields("out", 1, True)),
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 4).map(UInt),
    st.integers(0, 0xFFFFFFFF).map(UInt),
    st.integers(0, 3).map(UByte),
    st.integers(0, 2**64 - 1).map(ULong),
    st.binary(max_size=40),
    st.text(max_size=10),
    st.sampled_from(["PLAIN", "ANONYMOUS", "in", "out"]).map(Symbol),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=5).map(Symbol), inner, max_size=3),
        st.builds(Described, st.integers(0x10, 0x44).map(ULong), st.lists(inner, max_size=4)),
    ),
    max_leaves=6,
)
bodies = st.builds(
    lambda code, fields, payload: (
        encode_described_list(code, [encode_value(field) for field in fields]) + payload
    ),
    st.one_of(st.integers(0x10, 0x18), st.integers(0x40, 0x44), st.integers(0, 255)),
    st.lists(values, max_size=15),
    st.binary(max_size=20),
)
framed = st.builds(
    encode_frame, st.integers(0, 3), st.one_of(bodies, st.binary(max_size=40)), st.integers(0, 1)
)
noise = st.one_of(st.binary(max_size=200), st.lists(framed, max_size=8).map(b"".join))


@given(prefix=st.sampled_from(PREFIXES), data=noise, more=noise)
@settings(deadline=None, max_examples=600, suppress_health_check=[HealthCheck.too_slow])
def test_noise_never_raises_and_ends_at_most_in_a_close(prefix, data, more):
    engine = Connection(SERVER, now_ms=0)
    assert not of(ConnectionFailed, drive(engine, prefix))
    engine.data_to_send()
    events = drive(engine, data) + drive(engine, more)
    output = engine.data_to_send()
    engine.tick(10)
    failures = of(ConnectionFailed, events)
    assert len(failures) <= 1
    assert engine.unfinished.bytes_held >= 0
    if failures or of(CloseReceived, events):
        assert engine.closed
        assert drive(engine, data) == []
        assert engine.data_to_send() == b""
        assert engine.unfinished.bytes_held == 0
    if prefix in PREFIXES[3:] and engine.closed:
        codes = [code for _, code, _ in parse_frames(output)]
        assert codes[-1] == 0x18
        assert codes.count(0x18) == 1


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_a_damaged_stream_never_raises(data):
    stream = bytearray(b"".join(recorded()))
    for _ in range(data.draw(st.integers(1, 5))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    engine = Connection(SERVER, now_ms=0)
    events = drive(engine, bytes(stream))
    engine.data_to_send()
    if of(ConnectionFailed, events):
        assert engine.closed


def test_two_listeners_that_fail_leave_no_link_usable():
    peer = RawPeer().opened()
    peer.begun()
    link = peer.attached()
    peer.send(b"\x00\x00\x00\x00\x00\x00\x00\x00")
    assert peer.engine.closed
    assert not link.attached


# --- any order of work ------------------------------------------------------------------------

OUTCOMES = [ACCEPTED, RELEASED, MODIFIED, REJECTED]


class TwoEngines(RuleBasedStateMachine):
    """Both sides send, settle, drain and carry bytes in any order.

    Every message arrives whole and in the order of its link, and every settlement reaches
    the sender.
    """

    @initialize(frame_size=st.sampled_from([512, 700, 4096]), window=st.sampled_from([2, 5, 2048]))
    def open(self, frame_size: int, window: int) -> None:
        shape = {"max_frame_size": frame_size, "incoming_window": window}
        self.peers = Peers(
            client=ConnectionSettings(container_id="client", **shape),
            server=ConnectionSettings(container_id="server", **shape),
        ).opened()
        sessions = [self.peers.client.begin(), self.peers.client.begin()]
        self.senders = []
        self.receivers = {}
        self.sent = {}
        self.arrived = {}
        self.settled = {}
        for number in range(4):
            ends = self.peers.link(
                sessions[number % 2], f"l{number}", client_sends=number < 2, credit=0
            )
            sender, receiver = ends if number < 2 else (ends[1], ends[0])
            self.senders.append(sender)
            self.receivers[sender.name] = receiver
            self.sent[sender.name] = []
            self.arrived[sender.name] = []
            self.settled[sender.name] = []
        self.outbox = {True: b"", False: b""}

    # The wire: bytes are taken from an engine, then delivered in pieces.

    def _engine(self, client: bool) -> Connection:
        return self.peers.client if client else self.peers.server

    @rule(client=st.booleans())
    def write(self, client: bool) -> None:
        self.outbox[client] += self._engine(client).data_to_send()

    @rule(client=st.booleans(), part=st.floats(0, 1))
    def carry(self, client: bool, part: float) -> None:
        """Deliver a part of what `client` has written."""
        size = max(1, int(len(self.outbox[client]) * part))
        data, self.outbox[client] = self.outbox[client][:size], self.outbox[client][size:]
        for event in self._engine(not client).receive_data(data, 0):
            self._take(event)

    def _take(self, event: Event) -> None:
        assert not isinstance(event, ConnectionFailed | SessionFailed | LinkFailed | EndReceived), (
            event
        )
        if isinstance(event, TransferReceived):
            self.arrived[event.link.name].append((event.payload, event.tag, event.settled))
            if not event.settled:
                self.settled[event.link.name].append((event.link, event.delivery_id))
        elif isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                if not event.settled:
                    delivery.link.settle_sent(delivery, ACCEPTED)
        elif isinstance(event, IncomingSettled):
            assert event.first <= event.last

    @rule(
        number=st.integers(0, 3),
        size=st.sampled_from([0, 1, 100, 440, 470, 500, 600, 1500, 9000]),
        settled=st.booleans(),
        count=st.integers(1, 5),
    )
    def send(self, number: int, size: int, settled: bool, count: int) -> None:
        link = self.senders[number]
        for _ in range(min(count, link.credit)):
            index = len(self.sent[link.name])
            payload = b"%d:" % index + b"x" * size
            tag = b"%d" % index
            link.send(payload, tag, settled, 0, index)
            self.sent[link.name].append((payload, tag, settled))

    @rule(number=st.integers(0, 3), credit=st.integers(0, 8), drain=st.booleans())
    def grant(self, number: int, credit: int, drain: bool) -> None:
        self.receivers[self.senders[number].name].set_credit(credit, drain)

    @rule(number=st.integers(0, 3))
    def drained(self, number: int) -> None:
        if self.senders[number].drain:
            self.senders[number].drained()

    @precondition(lambda self: any(self.settled.values()))
    @rule(data=st.data(), state=st.sampled_from(OUTCOMES), at_once=st.booleans())
    def settle(self, data: st.DataObject, state: bytes, at_once: bool) -> None:
        name = data.draw(st.sampled_from([name for name in self.settled if self.settled[name]]))
        waiting = self.settled[name]
        link, delivery_id = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
        if at_once:
            link.settle(delivery_id, state)
        else:
            link.propose(delivery_id, state)

    @invariant()
    def order_is_kept(self) -> None:
        for name, arrived in getattr(self, "arrived", {}).items():
            assert arrived == self.sent[name][: len(arrived)]

    def teardown(self) -> None:
        """Let everything settle down: then all has arrived and nothing is remembered."""
        if not hasattr(self, "outbox"):
            return
        for _ in range(1000):
            for client in (True, False):
                self.write(client)
                if self.outbox[client]:
                    self.carry(client, 1.0)
            for waiting in self.settled.values():
                for link, delivery_id in waiting:
                    link.settle(delivery_id, ACCEPTED)
                waiting.clear()
            if not (self.peers.client.has_output or self.peers.server.has_output):
                break
        assert self.arrived == self.sent
        for engine in (self.peers.client, self.peers.server):
            assert engine.unfinished.bytes_held == 0
            for session in engine.sessions.values():
                assert not session.outgoing.unsettled


TwoEngines.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=60)
TestTwoEngines = TwoEngines.TestCase
