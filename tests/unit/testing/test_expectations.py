"""What an assertion on messages says when it fails."""

import pytest

from partibus.testing import Message, expect
from partibus.testing.kit.expectations import Expectation, complaint, expected


def message(number: int, body: object, **fields: object) -> Message:
    return Message(body=body, sequence_number=number, state="active", **fields)  # type: ignore[arg-type]


def told(
    wanted: list[Expectation], found: list[Message], *, in_any_order: bool = False
) -> str | None:
    return complaint("orders", [expected(one) for one in wanted], found, in_any_order)


def test_nothing_to_say() -> None:
    found = [message(1, "a", subject="s", properties={"k": 1}), message(2, b"\xff")]
    assert told(["a", b"\xff"], found) is None
    assert told([b"a", expect()], found) is None
    assert (
        told([expect("a", subject="s", properties={"k": 1}), expect(body=b"\xff")], found) is None
    )
    assert told([found[0], found[1]], found) is None
    assert told([b"\xff", "a"], found, in_any_order=True) is None


def test_what_differs_is_named() -> None:
    found = [message(1, "a", subject="s"), message(2, "b"), message(3, "c", delivery_count=2)]
    assert told([expect("a", subject="t"), "b"], found) == (
        "orders: expected 2 messages, found 3 messages\n"
        "  ! #1 body='a', subject='s'\n"
        "      subject is 's', expected 't'\n"
        "    as expected: #2 body='b'\n"
        "  + not expected: #3 body='c', delivery_count=2"
    )


def test_what_is_missing_is_named() -> None:
    assert told(["a", expect("b", session_id="s")], [message(1, "a")]) == (
        "orders: expected 2 messages, found 1 message\n"
        "    as expected: #1 body='a'\n"
        "  - missing: body='b', session_id='s'"
    )


def test_the_order_matters_unless_it_does_not() -> None:
    found = [message(1, "a"), message(2, "b")]
    assert told(["b", "a"], found) is not None
    assert told(["b", "a"], found, in_any_order=True) is None
    assert "missing: body='c'" in (told(["c", "a"], found, in_any_order=True) or "")


def test_two_of_the_same_need_two() -> None:
    assert told(["a", "a"], [message(1, "a"), message(2, "b")], in_any_order=True) is not None


def test_a_field_that_is_not_one() -> None:
    with pytest.raises(TypeError, match="'colour' is not a field of a message"):
        expect(colour="red")
    with pytest.raises(TypeError, match="one body"):
        expect("a", "b")
