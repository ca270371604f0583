"""The classes that carry an AMQP type."""

import pytest

from partibus.amqp.codec.types import Array, Described, Pairs, Symbol, UInt


def test_a_typed_value_equals_the_plain_one():
    assert UInt(7) == 7
    assert Symbol("word") == "word"
    assert {Symbol("word"): 1}["word"] == 1


def test_described_values_compare_by_both_parts():
    assert Described(1, "a") == Described(1, "a")
    assert Described(1, "a") != Described(2, "a")
    assert Described(1, "a") != Described(1, "b")
    assert Described(1, "a") != "a"


def test_a_described_value_is_a_key_when_its_parts_are():
    assert {Described(1, "a"): "x"}[Described(1, "a")] == "x"
    with pytest.raises(TypeError):
        hash(Described(1, []))


def test_arrays_compare_by_constructor_items_and_descriptor():
    array = Array(0x70, [UInt(1)])
    assert array == Array(0x70, [UInt(1)])
    assert array != Array(0x52, [UInt(1)])
    assert array != Array(0x70, [UInt(2)])
    assert array != Array(0x70, [UInt(1)], Symbol("d"))
    assert array != [UInt(1)]


def test_pairs_compare_in_order():
    assert Pairs([(1, "a"), (True, "b")]) == Pairs([(1, "a"), (True, "b")])
    assert Pairs([(1, "a"), (True, "b")]) != Pairs([(True, "b"), (1, "a")])
    assert Pairs([]) != {}


@pytest.mark.parametrize("holder", [Array(0x40, []), Pairs([])])
def test_what_holds_a_list_is_no_key(holder):
    with pytest.raises(TypeError):
        hash(holder)


def test_each_shows_itself():
    assert repr(Described(1, "a")) == "Described(1, 'a')"
    assert repr(Array(0x70, [1])) == "Array(0x70, [1], None)"
    assert repr(Pairs([(1, 2)])) == "Pairs([(1, 2)])"
