"""The page about rules: every row of its tables and every command, run."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partibus.cli.entities.rule_report import format_edit
from partibus.cli.messages.flags import system_property
from partibus.cli.messages.typed_properties import read_values
from partibus.cli.verb_table import command_tree
from partibus.rules.action import Action
from partibus.rules.errors import EvaluationError, RuleRefused
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.view import MappingView
from support.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RESULTS = {"selects": True, "does not": False, "unknown": None}


def rows(head: str) -> list[list[str]]:
    """The rows of every table with that head."""
    found = []
    for table in re.findall(rf"^\| {re.escape(head)} \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M):
        found += [[cell.strip() for cell in line.split(" | ")] for line in table.splitlines()]
    return [[cell.strip("| ") for cell in row] for row in found]


def view_of(cell: str) -> MappingView:
    user: dict[str, object] = {}
    system: dict[str, object] = {}
    for item in re.findall(r"`([^`]+)`", cell):
        if item.startswith("sys."):
            name, _, value = item[4:].partition("=")
            system[name.lower()] = system_property(name.lower(), value)
        else:
            user |= read_values([item])
    return MappingView(user, system)


FILTERS = rows("filter | properties | result")
ACTIONS = rows("action | properties | copy")


def test_the_page_has_examples() -> None:
    assert len(FILTERS) > 40
    assert len(ACTIONS) > 5
    assert all(len(row) == 3 for row in FILTERS + ACTIONS)


@pytest.mark.parametrize(("text", "properties", "result"), FILTERS)
def test_a_filter_does_what_the_page_says(text: str, properties: str, result: str) -> None:
    try:
        outcome = SqlFilter(text[1:-1], {}).matches(view_of(properties))
    except RuleRefused:
        assert result == "refused"
    except EvaluationError:
        assert result == "fails"
    else:
        assert outcome is RESULTS[result]


@pytest.mark.parametrize(("text", "properties", "copy"), ACTIONS)
def test_an_action_does_what_the_page_says(text: str, properties: str, copy: str) -> None:
    try:
        edits = Action(text[1:-1], {}).apply(view_of(properties))
    except RuleRefused:
        assert copy == "refused"
    except EvaluationError:
        assert copy == "fails"
    else:
        assert [format_edit(edit) for edit in edits] == re.findall(r"`([^`]+)`", copy)


def test_the_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE)
    (file,) = [text for language, text in blocks if language == "toml"]
    Path("orders.toml").write_text(file, encoding="utf-8")
    commands = [text for language, text in blocks if language == "sh"]
    shown = [text for language, text in blocks if language == "text"]
    assert len(commands) == len(shown) == 3
    for command, expected in zip(commands, shown, strict=True):
        result = CliRunner().invoke(command_tree(), shlex.split(command)[1:])
        printed = result.stdout + result.stderr
        assert [line.rstrip() for line in printed.splitlines()] == expected.splitlines()
