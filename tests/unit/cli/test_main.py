"""What a newcomer reads, and that reading it loads no server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import partibus
from partibus import __version__
from partibus.cli.main import wanted
from partibus.cli.verb_table import command_tree

RUNNER = CliRunner()
HEAVY = (
    *("asyncio", "cryptography", "sqlite3", "starlette", "uvicorn", "uvloop", "partibus.server"),
    *("pyspark", "pyarrow", "http.client"),
)


def shown(*arguments: str) -> str:
    result = RUNNER.invoke(
        command_tree(wanted(arguments)), arguments, env={"COLUMNS": "200", "TERM": "dumb"}
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_help_says_what_it_is_and_where_to_begin() -> None:
    text = shown("--help")
    assert "message bus" in text
    assert "partibus serve" in text
    for verb in ("serve", "send", "receive", "queue", "doctor", "context", "version", "config"):
        assert verb in text


def test_serve_explains_every_flag_and_its_default() -> None:
    text = shown("serve", "-h")
    for flag in ("--data", "--memory", "--config", "--host", "--port", "--tls-port"):
        assert flag in text
    for flag in (
        "--http-port",
        "--stores",
        "--store",
        "--workers",
        "--profile",
        "--faults",
        "--emulator",
    ):
        assert flag in text
    for default in ("./partibus-data", "127.0.0.1", "5672", "5671", "5300", "selfhost"):
        assert f"(default {default})" in text
    assert "PARTIBUS READY" in text
    assert "[server]" in text


def test_every_profile_is_named_in_the_help() -> None:
    from partibus.domain.limits import PROFILES

    text = shown("serve", "-h")
    for name in PROFILES:
        assert name in text


def test_version_is_one_line() -> None:
    text = shown("version")
    assert text.startswith(f"partibus {__version__} (Python ")
    assert text.count("\n") == 1


@pytest.mark.parametrize(("compiled", "form"), [(True, "compiled"), (False, "interpreted")])
def test_the_version_says_whether_the_hot_modules_are_compiled(
    monkeypatch: pytest.MonkeyPatch, compiled: bool, form: str
) -> None:
    monkeypatch.setattr("partibus.cli.verbs.version.is_compiled", lambda: compiled)
    assert shown("--version") == f"partibus {__version__} ({form})\n"
    assert shown("version").endswith(f", {form})\n")
    told = json.loads(shown("version", "--json"))
    assert (told["version"], told["compiled"]) == (__version__, compiled)
    assert told.keys() == {"version", "compiled", "python", "loop"}


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["claim", "release"], "claim release [OPTIONS] ENTITY OWNER"),
        (["send"], "send [OPTIONS] ENTITY [BODY]"),
        (["cluster", "drain"], "cluster drain [OPTIONS] [NODE]"),
        (["cluster", "accept"], "cluster accept [OPTIONS] LANE"),
    ],
)
def test_placeholders_are_in_capitals(arguments: list[str], usage: str) -> None:
    text = shown(*arguments, "--help")
    assert usage in text
    assert "<str>" not in text
    assert "<int" not in text


def pages(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every verb and of every group of verbs."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from pages(inner, *path, name)


def test_every_name_is_whole_at_the_width_of_a_terminal() -> None:
    tree = typer.main.get_command(command_tree())
    cut = {}
    for path in pages(tree):
        result = RUNNER.invoke(
            command_tree(wanted(path)), [*path, "--help"], env={"COLUMNS": "80", "TERM": "dumb"}
        )
        assert result.exit_code == 0, result.output
        cut[path] = [line for line in result.output.splitlines() if "…" in line]
    assert {path: lines for path, lines in cut.items() if lines} == {}


def test_an_unknown_verb_is_exit_code_two() -> None:
    assert RUNNER.invoke(command_tree(), ["sevre"]).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["serve", "--help"],
        ["fault", "--help"],
        ["purge", "--help"],
        ["send", "--help"],
        ["doctor", "--help"],
        ["queue", "create", "--help"],
        ["namespace", "import", "--help"],
        ["pipeline", "--help"],
        ["pipeline", "capture", "run", "--help"],
        ["pipeline", "transform", "--help"],
        ["version"],
    ],
)
def test_help_loads_no_server(arguments: list[str]) -> None:
    code = (
        "import sys; from partibus.cli.verb_table import command_tree\n"
        f"try: command_tree()({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(partibus.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stderr.strip() == "[]"
