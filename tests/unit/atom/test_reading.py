"""Reading descriptions: namespaces count, prefixes do not, and wrong values are named."""

import pytest

from partibus.atom.reading import (
    Description,
    read_boolean,
    read_duration,
    read_entry,
    read_integer,
    read_status,
)
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import EntityStatus
from partibus.domain.errors import ArgumentError
from partibus.domain.refusal import PropertyRefused
from support.management import ATOM, SERVICE_BUS, entry, queue

I = "http://www.w3.org/2001/XMLSchema-instance"  # noqa: E741


def test_prefixes_mean_nothing() -> None:
    body = (
        f'<a:entry xmlns:a="{ATOM}"><a:title/><a:content type="application/xml">'
        f'<x:QueueDescription xmlns:x="{SERVICE_BUS}"><x:LockDuration>PT1S</x:LockDuration>'
        f'<y:LockDuration xmlns:y="urn:other">PT9S</y:LockDuration>'
        "</x:QueueDescription></a:content></a:entry>"
    )
    description = read_entry(body.encode())
    assert description.name == "QueueDescription"
    assert description.text_of("LockDuration") == "PT1S"


def test_nil_is_absent_and_unknown_is_passed_over() -> None:
    description = read_entry(
        entry(
            f'<QueueDescription><ForwardTo xmlns:n="{I}" n:nil="true"/>'
            "<Novelty>1</Novelty></QueueDescription>"
        )
    )
    assert description.text_of("ForwardTo") is None
    assert description.child("Missing") is None


def test_what_stands_twice_is_refused() -> None:
    body = entry(queue("<Status>Active</Status><Status>Disabled</Status>"))
    with pytest.raises(PropertyRefused, match="Status"):
        read_entry(body).text_of("Status")


def test_elements_where_text_is_due() -> None:
    body = entry(queue("<Status><Active/></Status>"))
    with pytest.raises(PropertyRefused, match="Status"):
        read_entry(body).text_of("Status")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        b"<entry/>",
        b"<a><b></a>",
        f'<entry xmlns="{ATOM}"/>'.encode(),
        f'<entry xmlns="{ATOM}"><content/></entry>'.encode(),
        f'<entry xmlns="{ATOM}"><content><QueueDescription/></content></entry>'.encode(),
        f'<feed xmlns="{ATOM}"/>'.encode(),
        entry("<A/>").replace(b"</content>", f'<B xmlns="{SERVICE_BUS}"/></content>'.encode()),
        b'<?xml version="1.0" encoding="utf-7"?><entry/>',
        b'<?xml version="1.0" encoding="no-such"?><entry/>',
        b'<?xml version="1.0" encoding="shift_jis"?><entry/>',
        b"\xff\xfe\x00\x00",
        b"<entry>&#0;</entry>",
    ],
)
def test_what_is_no_entry(body: bytes) -> None:
    with pytest.raises(ArgumentError):
        read_entry(body)


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + b"".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">'.encode() for n in range(9))
    + b"]><entry>&j;</entry>"
)


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        b'<!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/passwd">]><entry>&x;</entry>',
        b'<!DOCTYPE e SYSTEM "http://localhost:1/e.dtd"><entry/>',
        b"<!DOCTYPE entry><entry/>",
    ],
)
def test_bombs_and_strangers_files(body: bytes) -> None:
    with pytest.raises(ArgumentError, match="not allowed"):
        read_entry(body)


def test_deep_nesting_is_only_deep() -> None:
    depth = 50_000
    body = entry("<Q>" + "<x>" * depth + "</x>" * depth + "</Q>")
    assert read_entry(body).name == "Q"


def test_values() -> None:
    assert [read_boolean("x", text) for text in ("true", "False", " 1 ", "0")] == [
        True,
        False,
        True,
        False,
    ]
    assert [read_integer("x", text) for text in ("5", "-7", " +3 ")] == [5, -7, 3]
    assert read_duration("x", "PT1M") == 60_000
    assert read_duration("x", "P10675199DT2H48M5.477539S") == DURATION_MAX_MS
    assert read_status("x", "receivedisabled") is EntityStatus.RECEIVE_DISABLED


@pytest.mark.parametrize("read", [read_boolean, read_integer, read_duration, read_status])
@pytest.mark.parametrize("text", ["", "x", "1.5", "-PT1S", "9" * 30, "é", "1" * 10_000])
def test_wrong_values_are_named(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(PropertyRefused) as caught:
        read("Element", text)
    assert caught.value.property_name == "Element"
    assert len(caught.value.text) < 300


def test_a_description_of_a_type() -> None:
    body = entry('<RuleDescription><Filter i:type="p:SqlFilter"/></RuleDescription>')
    found = read_entry(body).child("Filter")
    assert isinstance(found, Description)
    assert found.type_name == "SqlFilter"
