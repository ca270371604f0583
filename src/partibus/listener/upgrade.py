"""The opening handshake of AMQP over WebSocket (RFC 6455, section 4.2).

Owns the path, the sub-protocol and the rules for the request head. It is pure: a parsed head goes
in, the bytes of the answer come out. Called by the listener when an HTTP connection asks for an
upgrade; `websocket` owns the connection afterwards.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from wsproto.utilities import generate_accept_token

# The path that every SDK uses; .NET adds the slash.
WEBSOCKET_PATHS: Final = ("/$servicebus/websocket", "/$servicebus/websocket/")
# In order of preference: AMQP, WebSocket binding 1.0, standard in both of the vendor's services;
# and the name registered with IANA, which the documentation of Go's client uses.
SUBPROTOCOLS: Final = (b"AMQPWSB10", b"amqp")
VERSION: Final = b"13"
# The nonce is 16 random bytes in base64 (RFC 6455, 4.1).
NONCE_BYTES: Final = 16

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True, frozen=True)
class Answer:
    """What to write to the peer; the connection is a WebSocket only when `is_accepted`."""

    is_accepted: bool
    data: bytes


def answer(method: bytes, http_version: bytes, headers: Headers) -> Answer:
    """Answer a request for an upgrade; header names are in lower case."""
    if method != b"GET" or http_version != b"1.1":
        return refusal(400, "A WebSocket begins with GET and HTTP/1.1.")
    if _values(headers, b"sec-websocket-version") != [VERSION]:
        version = [(b"sec-websocket-version", VERSION)]
        return refusal(426, "This server speaks version 13 of the WebSocket protocol.", version)
    keys = _values(headers, b"sec-websocket-key")
    if len(keys) != 1 or not _is_nonce(keys[0]):
        return refusal(400, "Sec-WebSocket-Key must hold 16 bytes in base64, once.")
    offered = _tokens(headers, b"sec-websocket-protocol")
    protocol = next((known for known in SUBPROTOCOLS if known in offered), None)
    if protocol is None:
        return refusal(
            400, "Ask for the sub-protocol AMQPWSB10 (Sec-WebSocket-Protocol): AMQP is served here."
        )
    # No extension is accepted: a compressed frame can be a thousand times its size.
    accepted = [
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-accept", generate_accept_token(keys[0])),
        (b"sec-websocket-protocol", protocol),
    ]
    return Answer(True, _head(HTTPStatus.SWITCHING_PROTOCOLS, accepted))


def refusal(status: int, text: str, further: Headers = ()) -> Answer:
    """A plain HTTP answer, after which the connection is closed."""
    body = text.encode() + b"\n"
    headers = [
        *further,
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    return Answer(False, _head(HTTPStatus(status), headers) + body)


def _head(status: HTTPStatus, headers: Headers) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value.strip() for name, value in headers if name == wanted]


def _tokens(headers: Headers, wanted: bytes) -> list[bytes]:
    listed = b",".join(_values(headers, wanted))
    return [token.strip() for token in listed.split(b",")]


def _is_nonce(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == NONCE_BYTES
    except binascii.Error:
        return False
