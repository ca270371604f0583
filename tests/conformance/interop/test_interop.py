"""Three independent AMQP clients through the bus: each sends, each receives, nothing changes.

The matrix is that of the Apache Qpid interoperability suite: the types of AMQP 1.0, the fields of
header and properties, application properties, and bodies of up to 10 MB; between Qpid Proton for
Python, Qpid Proton for C++ and rhea.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from conformance.interop import values
from conformance.interop.suite import GROUPS, PAIRS, Bench, Message, write_definitions
from support.server import ServerProcess

SMALL: list[Message] = values.identified(
    [
        *(values.lines(body) for bodies in values.TYPES.values() for body in bodies),
        *(
            [f"{name} {value}", f"body {values.text(name)}"]
            for name, given in values.PROPERTIES.items()
            for value in given
        ),
        *(
            [f"property x{kind.encode().hex()} {value}", f"body {values.text(kind)}"]
            for kind, value in values.APPLICATION.items()
        ),
    ]
)


@cache
def large() -> list[Message]:
    return values.identified([values.lines(make()) for make in values.LARGE.values()])


pairs = pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        pytest.param(a, b, marks=[pytest.mark.group(GROUPS[a]), pytest.mark.group(GROUPS[b])])
        for a, b in PAIRS
    ],
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    place: Path = tmp_path_factory.mktemp("interop")
    with ServerProcess(place, write_definitions(place / "interop.toml")) as server:
        yield Bench(server, place)


@cache
def received(bench: Bench, kind: str, sender: str, receiver: str) -> list[Message]:
    """All messages of a pair, sent once for all tests."""
    return bench.pass_on(kind, sender, receiver, SMALL if kind == "small" else large())


def assert_same(bench: Bench, kind: str, sender: str, receiver: str, places: range) -> None:
    got = received(bench, kind, sender, receiver)
    sent = SMALL if kind == "small" else large()
    assert len(got) == len(sent)
    for place in places:
        is_same = sorted(got[place]) == sorted(sent[place])
        assert is_same, (shown(got[place]), shown(sent[place]))


def shown(message: Message) -> list[str]:
    """A message for people: a body of megabytes would keep the report busy for minutes."""
    return [f"{line[:200]} ({len(line)} characters)" for line in sorted(message)]


def place_of(name: str, groups: dict[str, list[str]], first: int) -> range:
    """The places of a group's messages among all that are sent."""
    for known, given in groups.items():
        if known == name:
            return range(first, first + len(given))
        first += len(given)
    raise AssertionError(name)


@pairs
@pytest.mark.parametrize("kind", values.TYPES)
def test_types(bench: Bench, sender: str, receiver: str, kind: str) -> None:
    assert_same(bench, "small", sender, receiver, place_of(kind, values.TYPES, 0))


@pairs
@pytest.mark.parametrize("field", values.PROPERTIES)
def test_header_and_properties(bench: Bench, sender: str, receiver: str, field: str) -> None:
    first = sum(map(len, values.TYPES.values()))
    assert_same(bench, "small", sender, receiver, place_of(field, values.PROPERTIES, first))


@pairs
@pytest.mark.parametrize("kind", values.APPLICATION)
def test_application_properties(bench: Bench, sender: str, receiver: str, kind: str) -> None:
    place = len(SMALL) - len(values.APPLICATION) + list(values.APPLICATION).index(kind)
    assert_same(bench, "small", sender, receiver, range(place, place + 1))


@pairs
@pytest.mark.parametrize("kind", values.LARGE)
def test_large_content(bench: Bench, sender: str, receiver: str, kind: str) -> None:
    place = list(values.LARGE).index(kind)
    assert_same(bench, "large", sender, receiver, range(place, place + 1))
