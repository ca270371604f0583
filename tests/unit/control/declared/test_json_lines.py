"""Comments taken out of JSON without moving anything, and lines of values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.control.declared.json_lines import json_lines, strip_comments
from partibus.control.declared.source import Where

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab/*"\\é ', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='k/*"', max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.rule("EMU-10")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1} // end', {"a": 1}),
        ('{"a": "http://x/*y*/" /* no\n*/ }', {"a": "http://x/*y*/"}),
        ('{"a": "\\"//" // "\n}', {"a": '"//'}),
        ("// first\n[1, // one\n 2]", [1, 2]),
        ("/* a */ [ /**/ ]", []),
    ],
)
def test_comments_go_and_strings_stay(text: str, value: object) -> None:
    stripped = strip_comments(text)
    assert json.loads(stripped) == value
    assert len(stripped) == len(text)
    assert [len(line) for line in stripped.split("\n")] == [len(s) for s in text.split("\n")]


def test_an_unclosed_comment_is_left_for_the_parser() -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(strip_comments("[1] /* open"))


@settings(deadline=None)
@given(JSON)
def test_text_without_comments_is_untouched(value: object) -> None:
    text = json.dumps(value, indent=1)
    assert strip_comments(text) == text


@settings(deadline=None)
@given(JSON)
def test_every_value_is_on_its_line(value: object) -> None:
    lines = json_lines(json.dumps(value, indent=1))
    expected: dict[Where, int] = {}
    _expect(value, (), 1, expected)
    assert lines == expected


def _expect(value: object, where: Where, line: int, expected: dict[Where, int]) -> int:
    """Follow the layout of json.dumps(indent=1): one line for each value and closing bracket."""
    expected[where] = line
    if isinstance(value, dict) and value:
        for key, item in value.items():
            line = _expect(item, (*where, key), line + 1, expected)
        line += 1
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            line = _expect(item, (*where, index), line + 1, expected)
        line += 1
    return line
