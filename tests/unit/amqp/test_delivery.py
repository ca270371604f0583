"""Outcomes as we write them and as peers do."""

import pytest

from partibus.amqp import delivery
from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.types import Described, Symbol, ULong
from partibus.amqp.delivery import (
    ACCEPTED,
    MODIFIED_FAILED,
    MODIFIED_UNDELIVERABLE,
    REJECTED,
    RELEASED,
    declared,
    modified,
    rejected,
    state_from_value,
    transactional_state,
)
from partibus.amqp.errors import AmqpError


def read(raw: bytes):
    return state_from_value(decode_value(raw, 0, len(raw))[0])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x40", "None"),
        (ACCEPTED, "Accepted()"),
        (RELEASED, "Released()"),
        (REJECTED, "Rejected(None)"),
        (rejected(AmqpError("a", "b", {"k": 1})), "Rejected(AmqpError('a', 'b', {'k': 1}))"),
        (MODIFIED_FAILED, "Modified(True, False, {})"),
        (MODIFIED_UNDELIVERABLE, "Modified(False, True, {})"),
        (modified(False, False, {"k": "v"}), "Modified(False, False, {'k': 'v'})"),
        (declared(b"t"), "Declared(b't')"),
        (transactional_state(b"t"), "TransactionalState(b't', None)"),
        (transactional_state(b"t", ACCEPTED), "TransactionalState(b't', Accepted())"),
        (b"\x00\x53\x23\x45", "Received()"),
        (b"\x00\x53\x99\x45", "None"),
        (b"\x00\xa3\x12amqp:accepted:list\x45", "Accepted()"),
        (b"\x00\xa3\x07foreign\x45", "None"),
        (b"\x00\x53\x27\x45", "Modified(False, False, {})"),
        (b"\x00\x53\x25\x45", "Rejected(None)"),
    ],
)
def test_a_state_is_read(raw, text):
    assert repr(read(raw)) == text


def test_descriptors_are_small_ulongs():
    for raw in (ACCEPTED, RELEASED, REJECTED, MODIFIED_FAILED, declared(b"t")):
        assert raw[:2] == b"\x00\x53"


def test_an_error_always_has_three_fields():
    raw = rejected(AmqpError("com.microsoft:message-lock-lost"))
    value, _ = decode_value(raw, 0, len(raw))
    error = value.value[0]
    assert error.descriptor == 0x1D
    assert error.value == ["com.microsoft:message-lock-lost", "", None]
    assert isinstance(error.value[0], Symbol)


def test_the_outcome_of_a_dead_letter_has_a_null_error():
    value, _ = decode_value(REJECTED, 0, len(REJECTED))
    assert value.value == [None]


@pytest.mark.parametrize(
    "value",
    [
        5,
        Described(ULong(0x24), "no list"),
        Described(ULong(0x25), ["no error"]),
        Described(ULong(0x25), [Described(ULong(0x1D), [])]),
        Described(ULong(0x27), [True, True, "no map"]),
        Described(ULong(0x33), []),
        Described(ULong(0x34), ["no binary"]),
    ],
)
def test_what_is_no_state_is_a_decode_error(value):
    with pytest.raises(DecodeError):
        state_from_value(value)


def test_a_deeply_nested_state_is_refused():
    raw = ACCEPTED
    for _ in range(100):
        raw = delivery.transactional_state(b"", raw)
    with pytest.raises(DecodeError):
        read(raw)
