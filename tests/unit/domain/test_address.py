"""Addresses as each client writes them, and the comparison of paths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.address import Address, covers, parse_address, path_key, resource_path

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True).filter(
    lambda name: name.lower() != "subscriptions"
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@pytest.mark.rule("ENT-10")
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("q1", Address("q1")),
        ("/q1", Address("q1")),
        ("q1/", Address("q1")),
        ("a/b/c", Address("a/b/c")),
        ("amqps://localhost:15672/q1", Address("q1")),
        ("sb://my.servicebus.windows.net/Orders", Address("Orders")),
        ("amqp://[::1]:5672/q1", Address("q1")),
        ("a%2Fb", Address("a/b")),
        ("q1/$DeadLetterQueue", Address("q1", sub_queue="$deadletterqueue")),
        ("q1/$deadletterqueue", Address("q1", sub_queue="$deadletterqueue")),
        ("q1/$Transfer/$DeadLetterQueue", Address("q1", sub_queue="$transfer/$deadletterqueue")),
        ("q1/$management", Address("q1", "management")),
        ("q1/$DeadLetterQueue/$management", Address("q1", "management", "$deadletterqueue")),
        ("$cbs", Address("", "cbs")),
        ("amqps://host/$CBS", Address("", "cbs")),
        ("$management", Address("", "management")),
        ("t/Subscriptions/s", Address("t", subscription="s")),
        ("a/t/subscriptions/S", Address("a/t", subscription="S")),
        (
            "t/SUBSCRIPTIONS/s/$DeadLetterQueue",
            Address("t", sub_queue="$deadletterqueue", subscription="s"),
        ),
        ("t/Subscriptions/s/$management", Address("t", "management", subscription="s")),
        ("subscriptions/s", Address("subscriptions/s")),
        ("", Address("")),
        ("sb://host", Address("")),
    ],
)
def test_takes_addresses_apart(raw: str, expected: Address) -> None:
    assert parse_address(raw) == expected


def test_the_paths_of_an_address() -> None:
    address = parse_address("t/subscriptions/s/$DeadLetterQueue/$management")
    assert address.entity_path == "t/Subscriptions/s"
    assert address.path == "t/Subscriptions/s/$deadletterqueue/$management"
    assert parse_address("q/$DeadLetterQueue").path == "q/$deadletterqueue"


@settings(deadline=None)
@given(
    PATHS,
    st.sampled_from(["", "/", "sb://host/", "amqps://host:5671/"]),
    st.sampled_from(["", "$deadletterqueue", "$transfer/$deadletterqueue"]),
    st.booleans(),
    st.none() | NAMES,
    st.booleans(),
)
def test_what_is_put_together_comes_apart(
    entity: str,
    prefix: str,
    sub_queue: str,
    managed: bool,
    subscription: str | None,
    shouting: bool,
) -> None:
    tail = "".join(f"/{part}" for part in (sub_queue, "$management" if managed else "") if part)
    if subscription is not None:
        tail = f"/Subscriptions/{subscription}{tail}"
    found = parse_address(prefix + entity + (tail.upper() if shouting else tail))
    assert found.entity == entity
    assert found.sub_queue == sub_queue
    assert found.node == ("management" if managed else "entity")
    assert path_key(found.subscription or "") == path_key(subscription or "")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_no_text_makes_parsing_fail(raw: str) -> None:
    found = parse_address(raw)
    assert not found.entity.startswith("/")


@pytest.mark.rule("SAS-6")
@pytest.mark.parametrize(
    ("scope", "path", "expected"),
    [
        ("", "", True),
        ("", "q1", True),
        ("q1", "q1", True),
        ("q1", "q1/$management", True),
        ("q1", "q10", False),
        ("q1", "q", False),
        ("q1", "", False),
        ("a/b", "a", False),
        ("t", "t/subscriptions/s/$deadletterqueue", True),
    ],
)
def test_a_scope_covers_whole_segments(scope: str, path: str, expected: bool) -> None:
    assert covers(scope, path) is expected


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sb://localhost:15672/q1", "q1"),
        ("SB://Host/Q1/", "q1"),
        ("https://host", ""),
        ("sb://host//a//b/", "a/b"),
        ("sb://host/a%2fB", "a/b"),
        ("amqp://host/t/Subscriptions/S", "t/subscriptions/s"),
    ],
)
def test_resources_compare_without_host_and_case(uri: str, expected: str) -> None:
    assert resource_path(uri) == expected
