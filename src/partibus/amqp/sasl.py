"""The SASL layer: one offer, one init, one outcome [5.3].

Owns the frames of the exchange and, as a table, their order. There are no challenges: the clients
of this bus send everything in the init, and the Python client treats a challenge as an error. Must
never judge a credential: the owner does.
"""

from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import (
    encode_binary,
    encode_described_list,
    encode_str,
    encode_symbol,
)
from partibus.amqp.codec.fields import FieldReader
from partibus.amqp.framing import FRAME_SASL, encode_frame
from partibus.amqp.performatives import encode_symbols

MECHANISMS: Final = 0x40
INIT: Final = 0x41
OUTCOME: Final = 0x44

OUTCOME_OK: Final = 0
OUTCOME_AUTH: Final = 1

# (are we the initiator, how many frames of the peer were read): the one frame allowed.
EXPECTED: Final[dict[tuple[bool, int], int]] = {
    (False, 0): INIT,
    (True, 0): MECHANISMS,
    (True, 1): OUTCOME,
}


def encode_mechanisms(mechanisms: tuple[str, ...]) -> bytes:
    return encode_frame(
        0, encode_described_list(MECHANISMS, [encode_symbols(mechanisms)]), FRAME_SASL
    )


def encode_init(mechanism: str, response: bytes, hostname: str) -> bytes:
    fields = [encode_symbol(mechanism), encode_binary(response), encode_str(hostname)]
    return encode_frame(0, encode_described_list(INIT, fields), FRAME_SASL)


def encode_outcome(code: int) -> bytes:
    # code is a ubyte; additional-data is trimmed, as the service does.
    return encode_frame(0, encode_described_list(OUTCOME, [bytes((0x50, code))]), FRAME_SASL)


def decode_mechanisms(fields: FieldReader) -> list[str]:
    return fields.symbols(0)


def decode_init(fields: FieldReader) -> tuple[str, bytes, str]:
    """Mechanism, initial response and host name; the last two empty when null."""
    response = fields.value(1)
    if response is not None and not isinstance(response, bytes):
        raise DecodeError("an initial response is not binary")
    return fields.text_required(0), response or b"", fields.text(2) or ""


def decode_outcome(fields: FieldReader) -> int:
    return fields.uint_required(0, 4)


def plain_response(user: str, password: str) -> bytes:
    return b"\x00" + user.encode() + b"\x00" + password.encode()


def parse_plain(response: bytes) -> tuple[str, str] | None:
    """User and password of a PLAIN response (RFC 4616); None when it is not one."""
    parts = response.split(b"\x00")
    if len(parts) != 3:
        return None
    try:
        return parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        return None
