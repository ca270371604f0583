"""The guide to testing, followed: its suites under pytest, its programs, its shell lines."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.test_documents import sections
from support.repository import ROOT
from support.server import SOURCE, ServerProcess

GUIDE = ROOT / "docs" / "guides" / "testing.md"
PLUGIN = "partibus.testing.plugin"
SUITES = (
    "Time",
    "Faults",
    "Messages",
    "asyncio, and administration clients",
    "Generated messages",
)
SECONDS_MAX = 240
TWO_WEEKS_MS = 14 * 86_400_000


def blocks(title: str, language: str) -> list[str]:
    return [text for kind, text in sections(GUIDE)[title] if kind == language]


def environment(directory: Path) -> dict[str, str]:
    """With the `partibus` command on the path, and nothing that tells of another server."""
    command = directory / "partibus"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m partibus "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PARTIBUS_", "PYTEST_"))}
    return kept | {"PATH": f"{directory}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}


def run_suite(
    directory: Path, suite: str, settings: str, *flags: str, path: Path | None = None
) -> str:
    """Run a suite of the guide with pytest, as its reader would."""
    (directory / "test_guide_suite.py").write_text(suite, encoding="utf-8")
    loop_scope = "asyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n"
    (directory / "pytest.ini").write_text(settings + loop_scope, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *flags],
        cwd=directory,
        env=environment(directory) | ({} if path is None else {"PYTHONPATH": f"{SOURCE}:{path}"}),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def settings() -> str:
    (text,) = blocks("A hundred tests", "ini")
    return text


def test_a_hundred_tests_in_parallel(tmp_path: Path) -> None:
    (suite,) = blocks("A hundred tests", "python")
    command = blocks("A hundred tests", "sh")[-1]
    assert command == "pytest -n 2\n"
    assert "100 passed" in run_suite(tmp_path, suite, settings(), *command.split()[1:])


@pytest.mark.parametrize("title", SUITES)
def test_a_suite(tmp_path: Path, title: str) -> None:
    for suite in blocks(title, "python"):
        count = len(re.findall(r"^(?:async )?def test_", suite, re.MULTILINE))
        assert count > 0
        assert f"{count} passed" in run_suite(tmp_path, suite, settings())


def test_the_program(tmp_path: Path) -> None:
    (program,) = blocks("Without pytest", "python")
    (output,) = blocks("Without pytest", "text")
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, output), done.stderr


def test_the_shell_lines(tmp_path: Path) -> None:
    serve, commands, curl = blocks("From any language", "sh")
    words = serve.split()
    assert words[:2] == ["partibus", "serve"]
    config = tmp_path / "empty.toml"
    config.write_text("", encoding="utf-8")
    with ServerProcess(tmp_path, config, *words[2:]) as server:
        script = commands.partition("partibus namespace reset")[0]
        script += "partibus peek orders; partibus dlq list orders --json\n"
        script += curl.replace("localhost:5672", f"localhost:{server.ready.amqp_port}")
        script += "\npartibus namespace reset\n"
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=tmp_path,
            env=environment(tmp_path) | {"PARTIBUS_CONNECTION_STRING": server.connection_string},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    (answer,) = re.findall(r'\{"now":.*?\}', done.stdout)
    # Two times a week, less what passes between reading the clock and setting it.
    assert TWO_WEEKS_MS - 1_000 <= json.loads(answer)["advanced_ms"] <= TWO_WEEKS_MS
    assert done.stdout.rstrip().endswith("reset")


def test_every_block_is_of_a_kind_that_is_run() -> None:
    known = {"python", "sh", "ini", "text", "js"}
    found = {kind for parts in sections(GUIDE).values() for kind, _ in parts}
    assert found <= known


def test_every_fixture_and_setting_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    source = (SOURCE / "partibus" / "testing" / "plugin.py").read_text(encoding="utf-8")
    fixtures = re.findall(r"@pytest\.fixture[^\n]*\ndef (\w+)", source)
    assert {"bus", "namespace", "clock", "faults", "reset"} <= set(fixtures)
    for name in (*fixtures, *re.findall(r'addini\(\s*"(\w+)"', source)):
        assert f"| `{name}` |" in text, name
