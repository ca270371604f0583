"""Sources, targets and coordinators."""

import pytest

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.types import Array, Described, Symbol, UInt, ULong
from partibus.amqp.terminus import (
    decode_source,
    decode_target,
    encode_source,
    encode_target,
    source_with_filter,
)

FILTER = "com.microsoft:session-filter"


def test_a_source_in_full():
    raw = encode_value(
        Described(
            ULong(0x28),
            [
                "q1",
                UInt(2),
                None,
                None,
                True,
                None,
                None,
                {Symbol(FILTER): "s1"},
                None,
                None,
                Array(0xA3, [Symbol("queue"), Symbol("topic")]),
            ],
        )
    )
    source = decode_source(raw)
    assert (source.address, source.durable, source.dynamic) == ("q1", 2, True)
    assert source.filters == {FILTER: "s1"}
    assert source.capabilities == ["queue", "topic"]
    assert repr(source) == f"Source('q1', {{'{FILTER}': 's1'}})"


@pytest.mark.parametrize("raw", [b"\x00\x53\x28\x45", b"\x00\xa3\x10amqp:source:list\x45"])
def test_an_empty_source(raw):
    source = decode_source(raw)
    assert (source.address, source.filters, source.dynamic) == (None, {}, False)


def test_what_is_absent_or_unknown_is_none():
    assert decode_source(b"\x40") is None
    assert decode_target(b"\x40") is None
    assert decode_target(b"\x00\x53\x99\x45") is None
    assert decode_target(b"\x00\x40\x45") is None


def test_a_target():
    raw = encode_value(Described(ULong(0x29), ["q", UInt(1), None, None, True, None, Symbol("c")]))
    target = decode_target(raw)
    assert (target.address, target.durable, target.dynamic) == ("q", 1, True)
    assert target.capabilities == ["c"]
    assert repr(decode_target(encode_target("q"))) == "Target('q')"


def test_a_coordinator():
    raw = encode_value(Described(ULong(0x30), [Symbol("amqp:local-transactions")]))
    assert repr(decode_target(raw)) == "Coordinator(['amqp:local-transactions'])"


@pytest.mark.parametrize(
    "value", ["text", Described(ULong(0x28), "text"), Described(ULong(0x28), [None] * 7 + ["map"])]
)
def test_what_is_no_source_is_a_decode_error(value):
    with pytest.raises(DecodeError):
        decode_source(encode_value(value))


@pytest.mark.parametrize("given", [None, "s1", Described(ULong(0x137000000C), None)])
def test_a_filter_is_replaced_and_all_else_stays(given):
    raw = encode_value(Described(ULong(0x28), ["q", UInt(1), None, None, None, None, None, {
        Symbol(FILTER): given
    }]))  # fmt: skip
    answer = "s9" if not isinstance(given, Described) else Described(given.descriptor, "s9")
    changed = source_with_filter(raw, {FILTER: answer})
    value, _ = decode_value(changed, 0, len(changed))
    assert value.value[:2] == ["q", 1]
    assert value.value[7] == {FILTER: answer}
    assert len(value.value) == 11
    assert changed[: raw.index(b"\xc0")] == raw[: raw.index(b"\xc0")]


def test_a_source_of_ours_can_be_read():
    source = decode_source(encode_source("q", {FILTER: None}))
    assert (source.address, source.filters) == ("q", {FILTER: None})
