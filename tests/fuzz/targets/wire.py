"""Bytes on a connection: AMQP frames into the engine, single values, WebSocket frames.

The engine answers as a server does, at once, so that inputs reach sessions, links and
transfers. It must raise nothing, whatever a peer sends.
"""

from typing import Any, Final

from wsproto.connection import Connection as WebSocketConnection
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from fuzz.target import Target
from partibus.amqp.codec.decode import DecodeError, decode_value, skip_value
from partibus.amqp.codec.encode import EncodeError, encode_described_list, encode_value
from partibus.amqp.codec.soundness import require_sound
from partibus.amqp.codec.types import Described, Symbol, Timestamp, UByte, UInt, ULong, UShort
from partibus.amqp.connection import Connection
from partibus.amqp.delivery import ACCEPTED
from partibus.amqp.events import (
    AttachReceived,
    Event,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    TransferReceived,
)
from partibus.amqp.framing import AMQP_HEADER, SASL_HEADER, encode_frame
from partibus.amqp.settings import ConnectionSettings
from partibus.listener.tcp import AmqpProtocol
from partibus.listener.upgrade import answer
from partibus.listener.websocket import WebSocketProtocol
from support.amqp.engines import attach_fields, frame

SERVER: Final = ConnectionSettings(container_id="server", max_frame_size=4096, incoming_window=20)
CLIENT: Final = ConnectionSettings(container_id="client", hostname="bus", max_frame_size=4096)
EVENTS_MAX: Final = 100_000

BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x11, 0x19)
OPENED: Final = AMQP_HEADER + frame(0, 0x10, "peer", "bus", UInt(4096))
BEGUN: Final = OPENED + frame(0, BEGIN, None, UInt(0), UInt(100), UInt(100), UInt(100))
ATTACHED: Final = (
    BEGUN
    + frame(0, ATTACH, *attach_fields("in", 0, False))
    + frame(0, ATTACH, *attach_fields("out", 1, True))
)
PRELUDES: Final = (b"", SASL_HEADER, OPENED, BEGUN, ATTACHED)


# --- frames -------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """The first byte chooses how far the connection has come, and how the rest is cut."""
    if not data:
        return
    choice, rest = data[0], data[1:]
    engine = Connection(SERVER, now_ms=0)
    _drive(engine, PRELUDES[choice % len(PRELUDES)])
    cut = len(rest) * (choice >> 4) // 16
    for piece in (rest[:cut], rest[cut:]):
        _drive(engine, piece)
        engine.data_to_send()
    engine.tick(10_000_000)
    engine.close()
    engine.data_to_send()


def _drive(engine: Connection, data: bytes) -> None:
    """Feed bytes and answer as a server would, at once."""
    pending = engine.receive_data(data, 0)
    done = 0
    while done < len(pending):
        assert len(pending) < EVENTS_MAX, "a few bytes became too many events"
        pending.extend(_answer(engine, pending[done]))
        done += 1


def _answer(engine: Connection, event: Event) -> list[Event]:
    if isinstance(event, SaslInitReceived):
        return engine.sasl_outcome(True)
    if isinstance(event, OpenReceived):
        engine.open()
    elif isinstance(event, AttachReceived):
        event.link.accept()
        if not event.link.is_sender:
            event.link.set_credit(100)
    elif isinstance(event, TransferReceived):
        event.link.settle(event.delivery_id, ACCEPTED)
    elif isinstance(event, FlowReceived):
        if event.link.sendable():
            event.link.send(b"out" * 2000, b"tag", False, 0, None)
        if event.link.drain:
            event.link.drained()
    return []


def client_frames(data: bytes) -> None:
    """The same engine as a client: a server answers with noise."""
    engine = Connection(CLIENT, initiator=True, now_ms=0)
    if data[:1] and data[0] & 1:
        engine.sasl_plain("user", "password")
    engine.open()
    session = engine.begin()
    sender = session.attach("s", is_sender=True, source=b"\x40", target=b"\x40")
    session.attach("r", is_sender=False, source=b"\x40", target=b"\x40").set_credit(10)
    if data[:1] and data[0] & 2:
        _drive(engine, AMQP_HEADER + frame(0, 0x10, "server", None, UInt(4096)))
        _drive(engine, frame(0, BEGIN, UShort(0), UInt(0), UInt(100), UInt(100), UInt(100)))
    _drive(engine, data[1:])
    if sender.sendable():
        sender.send(b"x" * 9000, b"tag", False, 0, None)
    engine.data_to_send()


def _frame_seeds() -> list[bytes]:
    sasl = encode_described_list(0x41, [b"\xa3\x05PLAIN", b"\xa0\x04\x00u\x00p"])
    plain = SASL_HEADER + encode_frame(0, sasl, 1) + BEGUN
    transfer = frame(0, TRANSFER, UInt(0), UInt(0), b"tag", UInt(0), False, False, payload=b"body")
    more = frame(0, TRANSFER, UInt(0), UInt(1), b"t2", UInt(0), False, True, payload=b"a" * 300)
    flow = frame(0, FLOW, UInt(0), UInt(9), UInt(0), UInt(9), UInt(1), UInt(0), UInt(5), None, True)
    settled = frame(0, DISPOSITION, True, UInt(0), UInt(3), True, Described(ULong(0x24), []))
    error = Described(ULong(0x1D), [Symbol("amqp:internal-error"), "why", {Symbol("a"): 1}])
    return [
        b"\x00" + plain,
        b"\x82" + BEGUN[len(OPENED) :],
        b"\x03" + ATTACHED[len(BEGUN) :],
        b"\x44" + transfer + settled,
        b"\x04" + more + transfer + flow,
        b"\x04" + flow + settled + frame(0, DETACH, UInt(0), True, error),
        b"\x04" + frame(0, END, error) + frame(0, CLOSE, error),
        b"\x04" + encode_frame(0, b"") + frame(7, BEGIN),
    ]


# --- values -------------------------------------------------------------------------------------


def values(data: bytes) -> None:
    """A value is decoded, stepped over and checked: the three must not contradict each other."""
    value, end = decode_value(data, 0, len(data))
    assert skip_value(data, 0, len(data)) == end, "decode and skip disagree about the end"
    encoded = encode_value(value)
    again, stop = decode_value(encoded, 0, len(encoded))
    assert stop == len(encoded)
    assert encode_value(again) == encoded, "an encoding is not stable"
    require_sound(b"\x00\x53\x77" + data[:end])


def _value_seeds() -> list[bytes]:
    some: tuple[object, ...] = (
        None,
        True,
        UByte(1),
        UInt(70000),
        ULong(1 << 40),
        -5,
        1.5,
        "text",
        "x" * 300,
        b"bytes",
        Symbol("amqp:x"),
        Timestamp(1_700_000_000_000),
        ["a", 1, None, [2.5, {"k": b"v"}]],
        {"a": 1, Symbol("b"): [True]},
        Described(Symbol("com.microsoft:timespan"), 10),
    )
    arrays = [b"\xe0\x04\x02\x54\x01\x02", b"\xf0\x00\x00\x00\x09\x00\x00\x00\x02\x71abcd"]
    return [encode_value(value) for value in some] + arrays


# --- WebSocket ----------------------------------------------------------------------------------


class _Transport:
    """A socket that takes everything and sends nothing."""

    def __init__(self) -> None:
        self.closing = False
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def set_write_buffer_limits(self, _high: int, _low: int) -> None: ...

    def get_extra_info(self, _name: str) -> None: ...


class _Client:
    """Answers some bytes, as a gateway does."""

    def __init__(self, wire: AmqpProtocol) -> None:
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.write(data[:10])
        if data.startswith(b"bye"):
            self._wire.close()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self) -> None: ...


class _NoDeadlines:
    def watch(self, _protocol: AmqpProtocol) -> None: ...

    def forget(self, _protocol: AmqpProtocol) -> None: ...


def websocket(data: bytes) -> None:
    """Frames of a client after the handshake, in two reads."""
    if not data:
        return
    deadlines: Any = _NoDeadlines()
    protocol = WebSocketProtocol(_Client, deadlines, lambda _: None)
    transport: Any = _Transport()
    protocol.connection_made(transport)
    rest = data[1:]
    cut = len(rest) * data[0] // 256
    protocol.data_received(rest[:cut])
    protocol.data_received(rest[cut:])
    protocol.connection_lost(None)
    assert transport.written < 64 * (len(data) + 64), "an answer is far larger than its question"


def _websocket_seeds() -> list[bytes]:
    client = WebSocketConnection(ConnectionType.CLIENT)
    some = [
        BytesMessage(data=b"AMQP\x00\x01\x00\x00"),
        BytesMessage(data=b"a" * 200, message_finished=False),
        Ping(payload=b"are you there"),
        BytesMessage(data=b"rest"),
        TextMessage(data="not for AMQP"),
    ]
    sent = [client.send(event) for event in some]
    bye = client.send(CloseConnection(code=1000, reason="enough"))
    return [b"\x80" + piece for piece in sent] + [b"\xff" + b"".join(sent[:4]) + bye]


def upgrade(data: bytes) -> None:
    """The head of a request for a WebSocket: lines with a colon, as a parser would hand them on."""
    method, _, rest = data.partition(b"\n")
    pairs = [line.partition(b":")[::2] for line in rest.split(b"\n")]
    answered = answer(method, b"1.1", [(name.lower(), value) for name, value in pairs])
    assert answered.data.startswith(b"HTTP/1.1 ")


UPGRADE_SEED: Final = (
    b"GET\nsec-websocket-version: 13\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\n"
    b"sec-websocket-protocol: AMQPWSB10"
)

TARGETS: Final = (
    Target(
        name="amqp-frames",
        takes="what a client sends on an AMQP connection",
        execute=frames,
        answers=(),
        seeds=_frame_seeds,
    ),
    Target(
        name="amqp-client",
        takes="what a server answers to our own client",
        execute=client_frames,
        answers=(),
        seeds=lambda: [b"\x02" + seed[1:] for seed in _frame_seeds()],
    ),
    Target(
        name="amqp-values",
        takes="one encoded AMQP value",
        execute=values,
        answers=(DecodeError, EncodeError),
        seeds=_value_seeds,
    ),
    Target(
        name="websocket-frames",
        takes="WebSocket frames of a client",
        execute=websocket,
        answers=(),
        seeds=_websocket_seeds,
    ),
    Target(
        name="websocket-upgrade",
        takes="the head of a request for a WebSocket",
        execute=upgrade,
        answers=(),
        seeds=lambda: [UPGRADE_SEED],
    ),
)
