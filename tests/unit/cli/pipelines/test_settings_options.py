"""Options of pipeline verbs are made from the declared settings, and mean the same as in a file."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from partibus.cli.pipelines.settings_options import with_settings
from partibus.cli.verb_table import command_tree
from partibus.domain import quantities
from pyspark_servicebus.pipelines.capture.settings import CompactSettings
from pyspark_servicebus.pipelines.kinds import KINDS
from pyspark_servicebus.pipelines.run.arguments import parser_for, table_of
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    Setting,
    setting,
    settings_of,
)

RUNNER = CliRunner()
COMMANDS = {name: (kind.settings_type(), name) for name, kind in KINDS.items()} | {
    "capture": (KINDS["capture"].settings_type(), "capture run"),
    "compact": (CompactSettings, "capture compact"),
}
SHORTHANDS = {("analytics", "mode"): "stream"}
"""What the verb offers under another name."""


@dataclass(frozen=True, kw_only=True)
class Sample(Declaration):
    """A setting of each form that is typed differently."""

    queue: str = setting("The queue.", "entity", is_argument=True)
    pace: str = setting("How fast.", default="full", choices=("full", "original"))
    keys: tuple[str, ...] = setting("Keys.", "texts", default=(), flags=("--key",))
    count: int = setting("How many.", "number", default=1, least=1)
    is_dry: bool = setting("Whether.", "switch", default=False)
    sizes: bool = setting("Sizes.", "switch", default=True)
    wait_ms: int = setting("How long.", "duration", default=90_000, panel="Times")
    until_ms: int | None = setting("Until when.", "moment", default=None, flags=("--before",))


@functools.cache
def commands() -> Any:
    return typer.main.get_command(command_tree())


def command(path: str) -> Any:
    found = commands()
    for word in ("pipeline", *path.split()):
        found = found.commands[word]
    return found


def cases() -> Iterator[tuple[str, str, Setting]]:
    for name, (kind, path) in COMMANDS.items():
        for found in settings_of(kind):
            yield name, path, found


@pytest.mark.parametrize(
    ("name", "path", "found"), [pytest.param(*c, id=f"{c[0]}-{c[2].key}") for c in cases()]
)
def test_every_setting_is_an_option_of_its_verb(name: str, path: str, found: Setting) -> None:
    parameters = {parameter.name: parameter for parameter in command(path).params}
    if instead := SHORTHANDS.get((name, found.key)):
        assert instead in parameters
        return
    parameter = parameters[found.key]
    assert parameter.help == found.full_help()
    if parameter.param_type_name == "option":
        assert set(parameter.opts) == set(found.typed.flags or (found.flag,))


def typed(*arguments: str, exit_code: int = 0) -> dict[str, object]:
    """What a verb gets from a command line."""
    tables: list[dict[str, object]] = []

    @with_settings(Sample)
    def verb(table: dict[str, object], extra: bool = False) -> None:
        tables.append(table)
        assert not extra

    alone = typer.Typer()
    alone.command()(verb)
    done = RUNNER.invoke(alone, arguments)
    assert done.exit_code == exit_code, done.output
    return tables[0] if tables else {}


def test_a_verb_gets_what_was_typed_and_nothing_else() -> None:
    assert typed("q") == {"queue": "q"}
    line = "q --pace original --key a --key b --count 3 --is-dry --no-sizes --wait 5m"
    table = typed(*line.split(), "--before", "2026-01-31")
    assert table == {
        "queue": "q",
        "pace": "original",
        "keys": ["a", "b"],
        "count": "3",
        "is_dry": True,
        "sizes": False,
        "wait": "5m",
        "until": "2026-01-31",
    }


def test_a_word_that_is_not_a_choice_is_refused() -> None:
    assert typed("q", "--pace", "slow", exit_code=2) == {}


def test_a_verb_and_a_script_read_the_same() -> None:
    options = "--pace original --key a --count 3 --is-dry --no-sizes --wait 5m --before 2026-01-31"
    script = parser_for(Sample, "sample.py", "A sample.")
    given = table_of(Sample, script.parse_args(["--queue", "q", *options.split()]))
    assert Sample.from_table(given) == Sample.from_table(typed("q", *options.split()))
    # The name that a file uses works in a script too.
    by_key = script.parse_args(["--queue", "q", "--keys", "a", "--until", "2026-01-31"])
    assert by_key.keys == ["a"] and by_key.until == "2026-01-31"


def test_help_names_the_default_as_it_is_typed() -> None:
    helps = {found.key: found.full_help() for found in settings_of(Sample)}
    assert helps["wait"] == "How long. (default 90s)"
    assert helps["pace"] == "How fast. (default full)"
    assert helps["until"] == "Until when."
    sizes = {found.key: found.full_help() for found in settings_of(CompactSettings)}
    assert sizes["file_size"].endswith("(default 128MiB)")


def test_defaults_in_the_help_are_valid_values() -> None:
    readers = {"duration": quantities.duration_ms, "size": quantities.size_bytes}
    texts = [
        (readers[found.form](found.full_help().rpartition("(default ")[2][:-1]), found.default)
        for kind, _ in COMMANDS.values()
        for found in settings_of(kind)
        if found.form in readers and found.default is not None
    ]
    assert texts and all(read == default for read, default in texts)
