"""Lines of keys in TOML, over everything that could lead the scan astray."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.control.declared.source import Where
from partibus.domain.toml_lines import toml_lines

TRICKY = '''\
# [[queue]] in a comment
[server]
port = 5672 # name = "no"
text = """
[[queue]]
name = "inside"
"""
literal = \'\'\'
port = 1\'\'\'
list = [
    "a", # ]
    "[x]",
]
inline = { a = 1, b = "}" }
quote = """a "quoted\\""" word""""

[[queue]]
name = "first"

[[queue]]
name = 'second'
"quoted.key" = 1
dotted . key = 2

  [[queue.policy]]
  name = "p"

[[topic]]
name = "t"
[[topic.subscription]]
name = "s1"
[[topic.subscription]]
name = "s2"
[[topic.subscription.rule]]
name = "r1"
[topic.subscription.rule.correlation_filter]
label = "x"
[[topic.subscription.rule]]
name = "r2"
[[topic]]
name = "t2"
[[topic.subscription]]
name = "s3"
'''


@pytest.mark.parametrize(
    ("where", "marker"),
    [
        (("server",), "[server]"),
        (("server", "port"), "port = 5672"),
        (("server", "text"), "text ="),
        (("server", "literal"), "literal ="),
        (("server", "list"), "list = ["),
        (("server", "inline"), "inline ="),
        (("server", "quote"), "quote ="),
        (("queue", 0, "name"), 'name = "first"'),
        (("queue", 1, "name"), "name = 'second'"),
        (("queue", 1, "quoted.key"), '"quoted.key"'),
        (("queue", 1, "dotted", "key"), "dotted . key"),
        (("queue", 1, "policy", 0, "name"), '  name = "p"'),
        (("topic", 0, "subscription", 1, "name"), 'name = "s2"'),
        (("topic", 0, "subscription", 1, "rule", 0, "name"), 'name = "r1"'),
        (("topic", 0, "subscription", 1, "rule", 0, "correlation_filter", "label"), "label ="),
        (("topic", 0, "subscription", 1, "rule", 1, "name"), 'name = "r2"'),
        (("topic", 1, "subscription", 0, "name"), 'name = "s3"'),
    ],
)
def test_each_key_is_on_its_line(where: Where, marker: str) -> None:
    lines = TRICKY.splitlines()
    expected = next(n for n, line in enumerate(lines, 1) if line.startswith(marker))
    assert toml_lines(TRICKY)[where] == expected


def test_the_text_above_is_toml() -> None:
    tomllib.loads(TRICKY)


def test_windows_line_ends() -> None:
    assert toml_lines("a = 1\r\n\r\n[t]\r\nb = 2\r\n") == {("a",): 1, ("t",): 3, ("t", "b"): 4}


VALUES = st.sampled_from(
    [
        "1",
        '"x"',
        "'x'",
        "true",
        "[1, 2]",
        '[\n  "[a]",\n  # ]\n]',
        '"""\n[x]\ny = 1\n"""',
        "{ a = '}' }",
        "1979-05-27T07:32:00Z",
        "'''\n# x\n'''",
        '"# no comment" # [yes]',
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), VALUES), max_size=12))
def test_every_key_of_any_document_is_found(entries: list[tuple[bool, str]]) -> None:
    text = ""
    expected: dict[Where, int] = {}
    where: Where = ()
    for number, (is_new_table, value) in enumerate(entries):
        if is_new_table:
            where = ("t", where[1] + 1 if where and isinstance(where[1], int) else 0)
            expected.setdefault(("t",), text.count("\n") + 1)
            expected[where] = text.count("\n") + 1
            text += "[[t]]\n"
        expected[(*where, f"k{number}")] = text.count("\n") + 1
        text += f"k{number} = {value}\n"
    tomllib.loads(text)
    assert toml_lines(text) == expected


@settings(deadline=None)
@given(st.text(alphabet="ab=[]\"'#{}.\n ", max_size=80))
def test_no_text_hangs_or_breaks_the_scan(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in toml_lines(text).values())
