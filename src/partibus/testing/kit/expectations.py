"""What a test expects in an entity, and the error when it is not there.

Owns the comparison of messages with expectations and the text of its failure, which names each
message that is missing, unexpected or different, and how. It must never fetch messages itself.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from partibus.testing.kit.messages import Message

_FIELDS: Final = tuple(field.name for field in fields(Message))


class Expected:
    """A message by the fields that matter to the test; all others are ignored."""

    def __init__(self, given: dict[str, object]) -> None:
        unknown = sorted(set(given) - set(_FIELDS))
        if unknown:
            known = ", ".join(_FIELDS)
            raise TypeError(f"'{unknown[0]}' is not a field of a message; the fields are {known}.")
        self.given = given

    def differences(self, message: Message) -> list[str]:
        """The fields in which a message differs; empty when it matches."""
        found = [(name, want, getattr(message, name)) for name, want in self.given.items()]
        return [
            f"{name} is {value!r}, expected {want!r}"
            for name, want, value in found
            if not _is_same(name, want, value)
        ]

    def __repr__(self) -> str:
        return ", ".join(_spoken(name, value) for name, value in self.given.items())


Expectation = Expected | Message | str | bytes
"""A body, or a message by some of its fields."""


def expect(*body: object, **given: object) -> Expected:
    """A message with this body, if one is given, and these fields."""
    if len(body) > 1:
        raise TypeError("a message has one body; give its other fields by name")
    return Expected({**({"body": body[0]} if body else {}), **given})


def expected(expectation: Expectation) -> Expected:
    """An expectation in its full form."""
    if isinstance(expectation, Expected):
        return expectation
    if isinstance(expectation, Message):
        return Expected({name: getattr(expectation, name) for name in _FIELDS})
    return Expected({"body": expectation})


def complaint(
    where: str, wanted: Sequence[Expected], found: Sequence[Message], in_any_order: bool
) -> str | None:
    """What is wrong, line by line; None when everything is as expected."""
    pairs = _matched(wanted, found) if in_any_order else _in_order(wanted, found)
    if all(
        want is not None and got is not None and not want.differences(got) for want, got in pairs
    ):
        return None
    lines = [f"{where}: expected {_count(len(wanted))}, found {_count(len(found))}"]
    for want, got in pairs:
        lines += _lines(want, got)
    return "\n".join(lines)


Pairs = list[tuple[Expected | None, Message | None]]


def _in_order(wanted: Sequence[Expected], found: Sequence[Message]) -> Pairs:
    longest = max(len(wanted), len(found))
    padded: Pairs = []
    for index in range(longest):
        want = wanted[index] if index < len(wanted) else None
        padded.append((want, found[index] if index < len(found) else None))
    return padded


def _matched(wanted: Sequence[Expected], found: Sequence[Message]) -> Pairs:
    """Each expectation with the first matching message that no other expectation took."""
    left = list(found)
    pairs: Pairs = []
    for want in wanted:
        got = next((message for message in left if not want.differences(message)), None)
        if got is not None:
            left.remove(got)
        pairs.append((want, got))
    return [*pairs, *((None, message) for message in left)]


def _lines(want: Expected | None, got: Message | None) -> list[str]:
    if got is None:
        return [f"  - missing: {want!r}"]
    if want is None:
        return [f"  + not expected: {_shown(got)}"]
    differences = want.differences(got)
    if not differences:
        return [f"    as expected: {_shown(got)}"]
    return [f"  ! {_shown(got)}", *(f"      {difference}" for difference in differences)]


def _shown(message: Message) -> str:
    reported = ["message_id", "session_id", "subject", "dead_letter_reason", "delivery_count"]
    parts = [_spoken("body", message.body)]
    parts += [_spoken(name, value) for name in reported if (value := getattr(message, name))]
    if message.properties:
        parts.append(_spoken("properties", dict(message.properties)))
    return f"#{message.sequence_number} " + ", ".join(parts)


def _spoken(name: str, value: object) -> str:
    return f"{name}={value!r}"


def _count(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def _is_same(name: str, want: object, value: object) -> bool:
    if name == "body" and isinstance(want, bytes) and isinstance(value, str):
        return want == value.encode()
    if name == "properties" and isinstance(want, dict) and isinstance(value, dict):
        return _plain(want) == _plain(value)
    return bool(want == value)


def _plain(properties: dict[object, object]) -> dict[object, object]:
    """AMQP types are Python types with another name."""
    return {key: bytes(v) if isinstance(v, bytearray) else v for key, v in properties.items()}
