"""Texts of one cause have one shape; what is shown of a body is harmless."""

import pytest

from pyspark_servicebus.pipelines.deadletters.text_shape import (
    SHAPE_CHARACTERS_MAX,
    safe_text,
    text_shape,
)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (None, ""),
        ("", ""),
        ("plain words", "plain words"),
        ("Timeout after 3000 ms", "Timeout after <n> ms"),
        ("took 1.5s, 20%", "took <n>s, <n>%"),
        ("order-123 of 7", "order-<n> of <n>"),
        ("Http2Client failed with E1234", "Http2Client failed with E1234"),
        ("id 6f9619ff-8b86-d011-b42d-00c04fc964ff gone", "id <guid> gone"),
        ("at 0x7ffe12 in deadbeef01", "at <hex> in <hex>"),
        ("facade is no hex, 12345678 is a number", "facade is no hex, <n> is a number"),
        ("at 2026-01-31T12:00:00.123Z", "at <time>"),
        ("at 2026-01-31 12:00:00,5 +01:00 ok", "at <time> ok"),
        ("on 1/31/2026 9:05:01 AM", "on <time>"),
        ("key 'a b' and \"c\" missing", "key <text> and <text> missing"),
        ("it doesn't, we don't", "it doesn't, we don't"),
        ("10.0.0.7:5671 refused", "<n> refused"),
        ("two\n  lines\t here", "two lines here"),
        ("v1/items/77", "v1/items/<n>"),
        ("-5 below", "<n> below"),
    ],
)
def test_a_shape(text: str | None, shape: str) -> None:
    assert text_shape(text) == shape


def test_texts_that_differ_in_ids_have_one_shape() -> None:
    shapes = {
        text_shape(f"Order {n} of 'c{n}' failed at 2026-01-0{n}T00:00:00Z: {n * 1.5} EUR")
        for n in range(1, 9)
    }
    assert len(shapes) == 1


def test_a_long_text_is_cut() -> None:
    assert len(text_shape("word " * 1000)) == SHAPE_CHARACTERS_MAX


def test_a_shape_takes_no_time_on_hostile_texts() -> None:
    for hostile in ("'" * 50_000, "1" * 50_000, "a-" * 25_000, "0x" * 25_000, "[" * 50_000):
        text_shape(hostile)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"hello", "hello"),
        (b"a\x1b[31mb\x07", "a [31mb"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("l\u202egnp", "l gnp"),
        (b"x" * 50, "x" * 20 + "\u2026"),
        (b"one\r\ntwo", "one two"),
    ],
)
def test_what_is_shown_of_a_body(raw: bytes | str, shown: str) -> None:
    assert safe_text(raw, 20) == shown
