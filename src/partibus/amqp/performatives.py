"""The performatives open, begin, attach, flow, detach, end and close [2.7].

Owns these frames, both ways. They are written with every field present, nulls included, for clients
that index without looking (amqp-contract 2.4), and read trimmed or full. Transfer and disposition,
which come with every message, are in modules of their own. Must never hold state.
"""

from collections.abc import Mapping
from typing import Final

from partibus.amqp.codec.encode import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_described_list,
    encode_str,
    encode_uint,
    encode_ulong,
    encode_value,
)
from partibus.amqp.codec.fields import FieldReader
from partibus.amqp.codec.types import SYMBOL8, Array, Symbol, UByte, UShort
from partibus.amqp.errors import AmqpError, encode_symbol_map, error_from_value
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import Coordinator, Source, Target, decode_source, decode_target

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

_ULONG_MAX: Final = 0xFFFFFFFFFFFFFFFF


class OpenFrame:
    """What the peer offers for the connection [2.7.1]."""

    __slots__ = (
        "channel_max",
        "container_id",
        "desired_capabilities",
        "hostname",
        "idle_timeout_ms",
        "max_frame_size",
        "offered_capabilities",
        "properties",
    )

    def __init__(self, fields: FieldReader) -> None:
        self.container_id = fields.text_required(0)
        self.hostname = fields.text(1)
        self.max_frame_size = fields.uint(2, 0xFFFFFFFF)
        self.channel_max = fields.uint(3, 0xFFFF, 0xFFFF)
        self.idle_timeout_ms = fields.uint(4, 0)
        self.offered_capabilities = fields.symbols(7)
        self.desired_capabilities = fields.symbols(8)
        self.properties = fields.mapping(9)

    def __repr__(self) -> str:
        return (
            f"OpenFrame({self.container_id!r}, {self.hostname!r}, {self.max_frame_size}, "
            f"{self.channel_max}, {self.idle_timeout_ms}, {self.properties!r})"
        )


class BeginFrame:
    """The peer's half of a session [2.7.2]."""

    __slots__ = (
        "handle_max",
        "incoming_window",
        "next_outgoing_id",
        "outgoing_window",
        "remote_channel",
    )

    def __init__(self, fields: FieldReader) -> None:
        self.remote_channel = fields.optional_uint(0, 0xFFFF)
        self.next_outgoing_id = fields.uint_required(1)
        self.incoming_window = fields.uint_required(2)
        self.outgoing_window = fields.uint_required(3)
        self.handle_max = fields.uint(4, 0xFFFFFFFF)


class AttachFrame:
    """The peer's half of a link [2.7.3]; both ends also as the peer encoded them."""

    __slots__ = (
        "desired_capabilities",
        "handle",
        "initial_delivery_count",
        "is_receiver",
        "max_message_size",
        "name",
        "offered_capabilities",
        "properties",
        "rcv_settle_mode",
        "snd_settle_mode",
        "source",
        "source_raw",
        "target",
        "target_raw",
    )

    def __init__(self, fields: FieldReader) -> None:
        self.name = fields.text_required(0)
        self.handle = fields.uint_required(1)
        self.is_receiver = fields.boolean(2)
        self.snd_settle_mode = fields.optional_uint(3, 2)
        self.rcv_settle_mode = fields.optional_uint(4, 1)
        self.source_raw = fields.raw(5)
        self.target_raw = fields.raw(6)
        self.source: Source | None = decode_source(self.source_raw)
        self.target: Target | Coordinator | None = decode_target(self.target_raw)
        self.initial_delivery_count = fields.uint(9, 0)
        self.max_message_size = fields.uint(10, 0, _ULONG_MAX)
        self.offered_capabilities = fields.symbols(11)
        self.desired_capabilities = fields.symbols(12)
        self.properties = fields.mapping(13)


class FlowFrame:
    """Windows of the session and, with a handle, credit of a link [2.7.4]; -1 for null."""

    __slots__ = (
        "delivery_count",
        "drain",
        "echo",
        "handle",
        "incoming_window",
        "link_credit",
        "next_incoming_id",
    )

    def __init__(self, fields: FieldReader) -> None:
        self.next_incoming_id = fields.uint(0, -1)
        self.incoming_window = fields.uint_required(1)
        self.handle = fields.uint(4, -1)
        self.delivery_count = fields.uint(5, -1)
        self.link_credit = fields.uint(6, -1)
        self.drain = fields.boolean(8)
        self.echo = fields.boolean(9)


class DetachFrame:
    __slots__ = ("closed", "error", "handle")

    def __init__(self, fields: FieldReader) -> None:
        self.handle = fields.uint_required(0)
        self.closed = fields.boolean(1)
        self.error: AmqpError | None = error_from_value(fields.value(2))


def decode_ending(fields: FieldReader) -> AmqpError | None:
    """The only field of end and of close."""
    return error_from_value(fields.value(0))


# --- what we write ----------------------------------------------------------------------------


def encode_boolean(value: bool) -> bytes:
    return ENCODED_TRUE if value else ENCODED_FALSE


def encode_properties(properties: Mapping[str, object] | None) -> bytes:
    return encode_symbol_map(dict(properties)) if properties else ENCODED_NULL


def encode_symbols(words: tuple[str, ...]) -> bytes:
    if not words:
        return ENCODED_NULL
    return encode_value(Array(SYMBOL8, [Symbol(word) for word in words]))


def encode_open(settings: ConnectionSettings, properties: Mapping[str, object] | None) -> bytes:
    return encode_described_list(
        OPEN,
        [
            encode_str(settings.container_id),
            encode_str(settings.hostname) if settings.hostname else ENCODED_NULL,
            encode_uint(settings.max_frame_size),
            encode_value(UShort(settings.channel_max)),
            encode_uint(settings.idle_timeout_ms) if settings.idle_timeout_ms else ENCODED_NULL,
            ENCODED_NULL,  # outgoing-locales
            ENCODED_NULL,  # incoming-locales
            encode_symbols(settings.offered_capabilities),
            encode_symbols(settings.desired_capabilities),
            encode_properties(settings.properties if properties is None else properties),
        ],
    )


def encode_begin(
    settings: ConnectionSettings, remote_channel: int | None, next_outgoing_id: int
) -> bytes:
    channel = ENCODED_NULL if remote_channel is None else encode_value(UShort(remote_channel))
    return encode_described_list(
        BEGIN,
        [
            channel,
            encode_uint(next_outgoing_id),
            encode_uint(settings.incoming_window),
            encode_uint(settings.outgoing_window),
            encode_uint(settings.handle_max),
            ENCODED_NULL,  # offered-capabilities
            ENCODED_NULL,  # desired-capabilities
            ENCODED_NULL,  # properties
        ],
    )


def encode_attach(
    name: str,
    handle: int,
    is_receiver: bool,
    snd_settle_mode: int | None,
    rcv_settle_mode: int | None,
    source: bytes,
    target: bytes,
    max_message_size: int,
    properties: Mapping[str, object] | None,
) -> bytes:
    return encode_described_list(
        ATTACH,
        [
            encode_str(name),
            encode_uint(handle),
            encode_boolean(is_receiver),
            _encode_mode(snd_settle_mode),
            _encode_mode(rcv_settle_mode),
            source,
            target,
            ENCODED_NULL,  # unsettled: links are not resumed
            ENCODED_FALSE,  # incomplete-unsettled
            ENCODED_NULL if is_receiver else encode_uint(0),  # initial-delivery-count
            encode_ulong(max_message_size),
            ENCODED_NULL,  # offered-capabilities
            ENCODED_NULL,  # desired-capabilities
            encode_properties(properties),
        ],
    )


def _encode_mode(mode: int | None) -> bytes:
    return ENCODED_NULL if mode is None else encode_value(UByte(mode))


def encode_flow(
    next_incoming_id: int,
    incoming_window: int,
    next_outgoing_id: int,
    outgoing_window: int,
    link_fields: list[bytes],
    echo: bool,
) -> bytes:
    """`link_fields` are handle, delivery-count, link-credit, available, drain; or none."""
    return encode_described_list(
        FLOW,
        [
            ENCODED_NULL if next_incoming_id < 0 else encode_uint(next_incoming_id),
            encode_uint(incoming_window),
            encode_uint(next_outgoing_id),
            encode_uint(outgoing_window),
            *(link_fields or [ENCODED_NULL] * 5),
            encode_boolean(echo),
            ENCODED_NULL,  # properties
        ],
    )


def encode_detach(handle: int, closed: bool, error: AmqpError | None) -> bytes:
    return encode_described_list(
        DETACH,
        [
            encode_uint(handle),
            encode_boolean(closed),
            ENCODED_NULL if error is None else error.encode(),
        ],
    )


def encode_end(error: AmqpError | None) -> bytes:
    return encode_described_list(END, [ENCODED_NULL if error is None else error.encode()])


def encode_close(error: AmqpError | None) -> bytes:
    return encode_described_list(CLOSE, [ENCODED_NULL if error is None else error.encode()])
