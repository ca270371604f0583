"""A message is stored alike however it was cut into frames, and whatever lies around them."""

import itertools
import uuid

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    encode_annotations,
    encode_delivery_annotations,
    encode_header,
    encode_properties,
)
from partibus.amqp.codec.types import Symbol
from partibus.domain.errors import BusError
from partibus.fragment.message import NewMessage
from partibus.message.envelope import received_to_stored, to_stored

AROUND = b"\x00\x53\x75\xa0\x02zz" * 4
"""Well-formed sections, so that a walk that strays beyond its frame finds something to read."""
PAIRS = encode_value(Symbol("x-opt-partition-key")) + encode_value("key")


def data(size: int) -> bytes:
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + bytes(range(256)) * (size // 256)


HEAD = encode_header(True, 7, 5_000, 0) + encode_annotations(PAIRS, 1)
NAMED = encode_properties(MessageProperties(message_id="m-1", group_id="key"))
MESSAGES = {
    "data": HEAD + NAMED + data(9_216),
    "short data": HEAD + NAMED + data(512),
    "data and nothing else": data(9_216),
    "no id": HEAD + encode_properties(MessageProperties(subject="s")) + data(9_216),
    "expiry": HEAD
    + encode_properties(MessageProperties(message_id="m", absolute_expiry_time_ms=7))
    + data(9_216),
    "two sections of data": NAMED + data(4_608) + data(4_608),
    "a value": NAMED + b"\x00\x53\x77\xb1" + (9_000).to_bytes(4, "big") + b"v" * 9_000,
    "annotations behind": NAMED + data(9_216) + encode_delivery_annotations(PAIRS, 1),
    "annotations before": encode_delivery_annotations(PAIRS, 1) + NAMED + data(9_216),
    "descriptor in full": NAMED + b"\x00\x80" + bytes(7) + data(9_216)[2:],
    "too long": NAMED + data(9_216) + b"x",
    "too short": NAMED + data(9_216)[:-1],
    "not AMQP": b"x" * 9_000,
    "large header": encode_header(True, 4, -1, 0)
    + encode_properties(MessageProperties(message_id="m", subject="s" * 70_000))
    + data(512),
}


@pytest.fixture(autouse=True)
def same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without an id is given a new one each time."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=7))


def outcome(stored: NewMessage) -> tuple[object, ...]:
    return (
        stored.body,
        stored.ttl_ms,
        stored.scheduled_ms,
        stored.session_id,
        stored.partition_key,
        stored.message_id,
    )


def whole(payload: bytes) -> tuple[object, ...] | str:
    try:
        return outcome(to_stored(payload, True))
    except BusError as error:
        return type(error).__name__


def in_frames(payload: bytes, cuts: list[int]) -> tuple[object, ...] | str:
    """The first frame lies between others in a buffer, as a read brings it."""
    bounds = [0, *cuts, len(payload)]
    frames = [payload[a:b] for a, b in itertools.pairwise(bounds)]
    rest: list[bytes | memoryview] = [memoryview(frame) for frame in frames[1:]]
    buffer = AROUND + frames[0] + AROUND
    start, end = len(AROUND), len(AROUND) + len(frames[0])
    try:
        return outcome(received_to_stored(buffer, start, end, rest or None, True))
    except BusError as error:
        return type(error).__name__


@pytest.mark.parametrize("name", MESSAGES)
def test_one_frame_in_a_buffer(name: str) -> None:
    payload = MESSAGES[name]
    assert in_frames(payload, []) == whole(payload)


@pytest.mark.parametrize("name", MESSAGES)
def test_several_frames_wherever_they_are_cut(name: str) -> None:
    payload = MESSAGES[name]
    expected = whole(payload)
    size = len(payload)
    # Everywhere in the head and around the begin of the body, then here and there.
    places = [*range(1, min(size, 160)), size // 2, size - 9, size - 1]
    for cut in places:
        assert in_frames(payload, [cut]) == expected, f"cut at {cut}"
        cuts = sorted({cut, min(cut + 3, size - 1), size * 3 // 4})
        assert in_frames(payload, cuts) == expected, f"cut at {cuts}"
