"""Messages: what senders send, what every way out of the bus makes of it, and the CLI's JSON.

A message that was accepted must go out everywhere: to AMQP receivers, to those who peek, to rules,
to HTTP, to the bulk path and to the command line.
"""

import json
import uuid
from typing import Final

from fuzz.target import Target
from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import EncodeError, encode_symbol, encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
    split_batch,
)
from partibus.amqp.codec.types import Char, Described, Pairs, Symbol, Timestamp, ULong
from partibus.client.message import IncomingMessage, OutgoingMessage, encode_batch
from partibus.client.messages.json_form import message_from_line, message_to_json
from partibus.domain.errors import ArgumentError, BusError
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.message.envelope import received_to_stored, to_delivery, to_peeked, to_stored
from partibus.message.parts import MessageParts
from partibus.message.view import StoredView
from partibus.rest.message import decode_message
from partibus.rest.property_headers import write_headers
from partibus.rules.view import SYSTEM_NAMES
from support.gateway.messages import in_session, keyed, plain, scheduled, via

NOW_MS: Final = 1_700_000_000_000
TOKEN: Final = uuid.UUID(int=7)
OVERLAY: Final = Overlay(encode_value("changed") + encode_value(1), "reason", "description")


def message(data: bytes) -> None:
    """One message through the whole house; the first byte says in how many frames it comes."""
    if not data:
        return
    choice, payload = data[0], data[1:]
    if choice & 1:
        cut = len(payload) * (choice >> 1) // 128
        rest: list[bytes | memoryview] = [payload[cut:]]
        stored = received_to_stored(payload, 0, cut, rest if payload[cut:] else None, True)
    else:
        stored = to_stored(payload, bool(choice & 2))
    for expires_ms in (0, NOW_MS + 1000):
        for overlay in (None, OVERLAY):
            _ways_out(stored, expires_ms, overlay)


def _ways_out(stored: NewMessage, expires_ms: int, overlay: Overlay | None) -> None:
    body = stored.body
    held = Held(1, 0, len(body), NOW_MS, expires_ms, 0, overlay)
    delivered = to_delivery(body, held, 1, TOKEN.bytes)
    peeked = to_peeked(body, held, 1)
    for payload in (delivered, peeked):
        json.dumps(message_to_json(IncomingMessage(payload, TOKEN)))
    again = to_stored(delivered, True)
    assert again.session_id == stored.session_id, "the session id changed on the way"
    received = decode_message(body, held, 1, TOKEN, True)
    write_headers(received.application)
    parts = MessageParts(0, True)
    parts.add(held, body)
    view = StoredView(body, 1, NOW_MS)
    for name in (*SYSTEM_NAMES, "unknown"):
        view.system(name)
    for name in view.names():
        view.user(name)


def _message_seeds() -> list[bytes]:
    header = encode_header(True, 4, 60_000, 0)
    ids = MessageProperties(message_id="m-1", group_id="s", subject="label", to="there")
    applied = {"color": "red", "n": 5, "at": Timestamp(NOW_MS), "id": TOKEN, "raw": b"\x01"}
    body = b"\x00\x53\x77" + encode_value(
        ["a", {"k": Symbol("v")}, Described(ULong(1), None), Pairs([([1], 2)]), Char("x")]
    )
    whole = header + encode_properties(ids) + encode_application_properties(dict(applied)) + body
    noted = encode_symbol("x-opt-partition-key") + encode_value("s")
    own = encode_symbol("x-opt-lock-token") + encode_value(TOKEN)
    delivery = b"\x00\x53\x71" + encode_value({Symbol("a"): 1})
    some = [
        plain(1),
        keyed(2, "k"),
        in_session(3, "s"),
        via(4, "v", "k"),
        scheduled(5, NOW_MS),
        whole,
        delivery + encode_annotations(noted + own, 2) + whole[len(header) :],
        plain(6, 300),
        b"\x00\x53\x76" + encode_value([1, 2]) + b"\x00\x53\x78" + encode_value({"f": 1}),
        encode_properties(MessageProperties(message_id=TOKEN, absolute_expiry_time_ms=NOW_MS)),
    ]
    return [b"\x02" + payload for payload in some] + [b"\x81" + whole, b"\x41" + plain(7, 300)]


def batch(data: bytes) -> None:
    """An envelope of several messages."""
    for inner in split_batch(data):
        to_stored(inner)


def _batch_seeds() -> list[bytes]:
    first = OutgoingMessage(body=b"one", message_id="m", session_id="s")
    return [encode_batch(first, [first.encode(), plain(2), plain(3)])]


def json_line(data: bytes) -> None:
    """A line of JSON as `partibus send` reads it, sent and shown again."""
    made = message_from_line(data.decode("utf-8", "replace"), "line 1")
    shown = message_to_json(IncomingMessage(made.encode(), TOKEN))
    message_from_line(json.dumps(shown), "again").encode()


JSON_SEEDS: Final = (
    b'{"body": "hello", "properties": {"a": 1, "b": 2.5, "c": true, "d": null}}',
    b'{"body_base64": "AAEC", "message_id": "m", "session_id": "s", "time_to_live_ms": 1000}',
    b'{"body_type": "value", "body": [{"$time": "2024-06-01T12:00:00Z"}, {"$bytes": "AA=="}]}',
    b'{"body_type": "sequence", "body": [1], "scheduled_enqueue_time": "2030-01-01T00:00:00Z"}',
    b'{"body": {"k": [1, 2]}, "subject": "x", "properties": {"u": {"$uuid": "'
    + str(TOKEN).encode()
    + b'"}}}',
)

TARGETS: Final = (
    Target(
        name="messages",
        takes="an encoded message, on its way in and on every way out",
        execute=message,
        answers=(BusError,),
        seeds=_message_seeds,
    ),
    Target(
        name="batches",
        takes="an envelope of several messages",
        execute=batch,
        answers=(BusError, DecodeError),
        seeds=_batch_seeds,
    ),
    Target(
        name="json-messages",
        takes="a line of JSON for `partibus send`",
        execute=json_line,
        answers=(ArgumentError, EncodeError),
        seeds=lambda: JSON_SEEDS,
    ),
)
