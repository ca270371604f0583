"""Engines without sockets: two of them back to back, or one against hand-made frames."""

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_described_list, encode_value
from partibus.amqp.codec.types import Described, UInt
from partibus.amqp.connection import Connection
from partibus.amqp.events import AttachReceived, Event, OpenReceived, SaslInitReceived
from partibus.amqp.framing import AMQP_HEADER, FRAME_HEAD, encode_frame
from partibus.amqp.link import Link
from partibus.amqp.session import Session
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target
from partibus.domain import conditions


def of(kind: type[Event], events: list[Event]) -> list[Event]:
    return [event for event in events if type(event) is kind]


class Peers:
    """A client and a server whose outputs are each other's inputs.

    The server answers SASL and open by itself; the rest is the test's.
    """

    def __init__(
        self,
        client: ConnectionSettings | None = None,
        server: ConnectionSettings | None = None,
    ) -> None:
        self.client = Connection(
            client or ConnectionSettings(container_id="client", hostname="bus"),
            initiator=True,
            now_ms=0,
        )
        self.server = Connection(server or ConnectionSettings(container_id="server"), now_ms=0)
        self.client_events: list[Event] = []
        self.server_events: list[Event] = []

    def pump(self) -> None:
        """Carry bytes both ways until there are none."""
        while self.client.has_output or self.server.has_output:
            self.to_server()
            self.to_client()

    def to_server(self) -> None:
        pending = self.server.receive_data(self.client.data_to_send(), 0)
        while pending:
            event = pending.pop(0)
            self.server_events.append(event)
            if isinstance(event, SaslInitReceived):
                pending.extend(self.server.sasl_outcome(True))
            elif isinstance(event, OpenReceived):
                self.server.open()

    def to_client(self) -> None:
        self.client_events.extend(self.client.receive_data(self.server.data_to_send(), 0))

    def take(self) -> tuple[list[Event], list[Event]]:
        """Pump, then hand over and forget what both sides reported: client, server."""
        self.pump()
        seen = self.client_events, self.server_events
        self.client_events, self.server_events = [], []
        return seen

    def opened(self) -> "Peers":
        self.client.sasl_anonymous()
        self.client.open()
        self.take()
        return self

    def link(
        self,
        session: Session,
        name: str = "link",
        *,
        client_sends: bool = True,
        credit: int = 100,
        max_message_size: int | None = None,
    ) -> tuple[Link, Link]:
        """An attached link with credit: the client's end and the server's."""
        client_link = session.attach(
            name, is_sender=client_sends, source=encode_source("a"), target=encode_target("b")
        )
        _, server_events = self.take()
        (attach,) = of(AttachReceived, server_events)
        assert isinstance(attach, AttachReceived)
        attach.link.accept(max_message_size=max_message_size)
        receiver = attach.link if client_sends else client_link
        if credit:
            receiver.set_credit(credit)
        self.take()
        return client_link, attach.link


class RawPeer:
    """Hand-made frames for a listener's engine, and its answers in readable form."""

    def __init__(self, settings: ConnectionSettings | None = None, now_ms: int = 0) -> None:
        self.engine = Connection(
            settings
            or ConnectionSettings(
                container_id="server",
                busy_condition=conditions.MICROSOFT_SERVER_BUSY,
                stalled_condition=conditions.MICROSOFT_TIMEOUT,
            ),
            now_ms=now_ms,
        )

    def send(self, data: bytes) -> list[Event]:
        return self.engine.receive_data(data, 0)

    def frame(self, channel: int, code: int, *fields: object) -> list[Event]:
        return self.send(frame(channel, code, *fields))

    def opened(self, **kwargs: object) -> "RawPeer":
        """Past the header and open; `kwargs` are max_frame_size and idle_timeout_ms."""
        size = kwargs.get("max_frame_size")
        idle = kwargs.get("idle_timeout_ms")
        self.send(AMQP_HEADER)
        self.frame(0, 0x10, "peer", "bus", size, None, idle)
        self.engine.open()
        self.engine.data_to_send()
        return self

    def begun(self, channel: int = 1, incoming_window: int = 1000) -> Session:
        self.frame(
            channel, 0x11, None, UInt(0), UInt(incoming_window), UInt(1000), UInt(0xFFFFFFFF)
        )
        self.answers()
        return self.engine.sessions[channel]

    def attached(
        self, *, handle: int = 0, name: str = "link", peer_sends: bool = True, channel: int = 1
    ) -> Link:
        (event,) = self.frame(channel, 0x12, *attach_fields(name, handle, not peer_sends))
        assert isinstance(event, AttachReceived)
        event.link.accept()
        self.answers()
        return event.link

    def answers(self) -> list[tuple[int, int, list[object]]]:
        """Channel, code and fields of every frame that the engine has queued."""
        return parse_frames(self.engine.data_to_send())


def frame(channel: int, code: int, *fields: object, payload: bytes = b"") -> bytes:
    body = encode_described_list(code, [encode_value(field) for field in fields])
    return encode_frame(channel, body + payload)


def attach_fields(name: str, handle: int, is_receiver: bool) -> list[object]:
    source, _ = decode_value(encode_source("a"), 0, len(encode_source("a")))
    target, _ = decode_value(encode_target("b"), 0, len(encode_target("b")))
    first = None if is_receiver else UInt(0)
    return [name, UInt(handle), is_receiver, None, None, source, target, None, None, first]


def parse_frames(data: bytes) -> list[tuple[int, int, list[object]]]:
    """Frames without payload as channel, code, fields; headers are stepped over."""
    frames: list[tuple[int, int, list[object]]] = []
    at = 0
    while at < len(data):
        if data.startswith(b"AMQP", at):
            at += 8
            continue
        size, doff, _, channel = FRAME_HEAD.unpack_from(data, at)
        if size > 8:
            value, _ = decode_value(data, at + 4 * doff, at + size)
            assert isinstance(value, Described)
            frames.append((channel, int(str(value.descriptor)), list(value.value)))
        at += size
    return frames
