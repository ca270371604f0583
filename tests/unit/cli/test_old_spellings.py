"""Options of the same meaning have one name; what they were called before still works."""

from typing import Any

import pytest
import typer

from partibus.cli.old_spellings import OLD_SPELLINGS, in_present_words
from partibus.cli.verb_table import command_tree

ROOT = typer.main.get_command(command_tree())


def options_of(verb: str) -> set[str]:
    command: Any = ROOT
    for word in verb.split():
        command = command.commands[word]
    return {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize("verb", OLD_SPELLINGS)
def test_an_old_name_is_no_option_of_its_verb_and_its_present_name_is(verb: str) -> None:
    known = options_of(verb)
    assert set(OLD_SPELLINGS[verb].values()) <= known
    assert not set(OLD_SPELLINGS[verb]) & known


def test_words_are_replaced_where_they_are_options() -> None:
    given = ["orders", "--session", "a", "--max=3", "--", "--session"]
    assert in_present_words("receive", given) == [
        *("orders", "--session-id", "a", "--max=3", "--", "--session")
    ]
    assert in_present_words("peek", ["--session=b"]) == ["--session-id=b"]
    assert in_present_words("send", ["--session", "a"]) == ["--session", "a"]


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("--output", ("pipeline analytics", "pipeline deadletters", "namespace export")),
        ("-o", ("pipeline analytics", "pipeline deadletters", "namespace export")),
        ("--session-id", ("send", "schedule create", "receive", "peek", "tail", "rule test")),
        ("--ttl", ("send", "schedule create", "rule test", "rule explain")),
        ("--at", ("send", "schedule create", "rule test", "rule explain")),
        ("--sql-filter", ("rule create", "rule update", "rule explain", "subscription create")),
        ("--before", ("purge", "dlq purge", "pipeline replay")),
        ("--interval", ("tail", "pipeline analytics", "pipeline transform")),
    ],
)
def test_the_same_meaning_has_the_same_name(name: str, verbs: tuple[str, ...]) -> None:
    assert [verb for verb in verbs if name not in options_of(verb)] == []
