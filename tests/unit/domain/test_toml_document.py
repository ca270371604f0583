"""Where a key stands, compared with what the library reads."""

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.toml_lines import TomlLines

TEXT = '''\
name = "x"  # [not.a.table]
conf."a.b" = 1

[source]
queue = "orders"
many = [
  "[step]",
  "key = 1",
]

[[step]]
sql = """
select 1
name = 'no key'
[sink]
"""
[[step]]
rename = { old = "new", "older one" = 'newer' }
[sink.more]
queue = 'bills'
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("name",), 1),
        (("conf", "a.b"), 2),
        (("source",), 4),
        (("source", "queue"), 5),
        (("source", "many"), 6),
        (("step", 0), 11),
        (("step", 0, "sql"), 12),
        (("step", 1, "rename"), 18),
        (("step", 1, "rename", "older one"), 18),
        (("sink", "more", "queue"), 20),
        (("source", "absent"), 4),
        (("absent",), None),
    ],
)
def test_lines(path: tuple[str | int, ...], line: int | None) -> None:
    assert TomlLines(TEXT).line(*path) == line


def test_what_is_inside_values_is_no_key() -> None:
    lines = TomlLines(TEXT)
    assert lines.exact("sink", "queue") is None
    assert lines.exact("step", 0, "name") is None


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield (*path, name)
            yield from paths(item, (*path, name))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from paths(item, (*path, number))


VALUES = st.sampled_from(
    [
        "1",
        '"a # b"',
        "'[x]'",
        '"""\n[t]\nk = 1\n"""',
        "[\n 1,\n 2, # three\n]",
        "{ z = 1 }",
        '"\\""',
    ]
)
KEYS = st.sampled_from(["a", "b", "c", '"d e"'])


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = []
    for name in draw(st.lists(st.sampled_from(["[t]", "[[u]]", "[[u]]", "[v.w]"]), max_size=4)):
        if name in ("[t]", "[v.w]") and name in lines:
            continue
        lines.append(name)
        keys = draw(st.lists(KEYS, unique=True, max_size=3))
        lines += [f"{key} = {draw(VALUES)}" for key in keys]
    return "\n".join(lines)


@given(files())
@settings(deadline=None)
def test_every_key_has_a_line(text: str) -> None:
    lines, rows = TomlLines(text), text.splitlines()
    for path in paths(tomllib.loads(text)):
        line = lines.line(*path)
        assert line is not None
        if lines.exact(*path) is not None and isinstance(path[-1], str):
            assert path[-1] in rows[line - 1]
