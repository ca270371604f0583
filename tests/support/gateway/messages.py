"""Small messages for tests of the gateway; the body ends with two digits."""

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_annotations, encode_properties
from partibus.amqp.codec.types import Symbol, Timestamp


def plain(number: int, size: int = 2) -> bytes:
    """A message without a key."""
    body = (b"%02d" % number).rjust(size, b".")
    return encode_properties(MessageProperties(message_id=f"m-{number}")) + _data(body)


def keyed(number: int, key: str, size: int = 2) -> bytes:
    """A message with a partition key."""
    pairs = encode_value(Symbol("x-opt-partition-key")) + encode_value(key)
    return encode_annotations(pairs, 1) + plain(number, size)


def _data(body: bytes) -> bytes:
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def in_session(number: int, session_id: str, size: int = 2) -> bytes:
    """A message of a session."""
    properties = MessageProperties(message_id=f"m-{number}", group_id=session_id)
    return encode_properties(properties) + _data((b"%02d" % number).rjust(size, b"."))


def via(number: int, via_key: str, key: str | None = None) -> bytes:
    """A message with a ViaPartitionKey."""
    pairs = encode_value(Symbol("x-opt-via-partition-key")) + encode_value(via_key)
    if key is not None:
        pairs += encode_value(Symbol("x-opt-partition-key")) + encode_value(key)
    return encode_annotations(pairs, 1 if key is None else 2) + plain(number)


def scheduled(number: int, due_ms: int) -> bytes:
    """A message for a later time."""
    pairs = encode_value(Symbol("x-opt-scheduled-enqueue-time")) + encode_value(Timestamp(due_ms))
    return encode_annotations(pairs, 1) + plain(number)
