"""The guide to faults, followed step by step: its commands, its programs, their output."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Partibus
from support.repository import ROOT
from support.server import ServerProcess

GUIDE = ROOT / "docs" / "guides" / "faults.md"
REFERENCE = ROOT / "docs" / "reference" / "partitioning.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ENDPOINT = "sb://localhost:5672;"
PROGRAM_SECONDS_MAX = 120


def sections(document: Path) -> dict[str, list[tuple[str, str]]]:
    """The fenced blocks of each section, as (language, text)."""
    text = document.read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {title: BLOCK.findall(body) for title, body in zip(*[iter(parts)] * 2, strict=True)}


@pytest.fixture(scope="module")
def guide_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server of the guide's first section, on a free port."""
    directory = tmp_path_factory.mktemp("guide")
    blocks = dict(sections(GUIDE)["Begin"])
    config = directory / "faults.toml"
    config.write_text(blocks["toml"], encoding="utf-8")
    words = blocks["sh"].split()
    assert words[:2] == ["partibus", "serve"]
    flags = words[2 : words.index("--config")]
    with ServerProcess(directory, config, *flags) as process:
        yield process


def run_program(server: ServerProcess, text: str, directory: Path) -> str:
    """A Python program of the guide, with the `partibus` command on its path."""
    assert text.count(ENDPOINT) == 1
    command = directory / "partibus"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m partibus "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = directory / "program.py"
    path.write_text(text.replace(ENDPOINT, f"sb://localhost:{server.ready.amqp_port};"), "utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env=os.environ
        | {
            "PATH": f"{directory}:{os.environ['PATH']}",
            "PARTIBUS_CONNECTION_STRING": server.connection_string,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONUNBUFFERED": "1",
        },
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "title",
    ["A store goes down", "A busy queue", "Locks that are lost", "A bus that is far away"],
)
def test_a_section_of_the_guide_does_what_it_says(
    guide_server: ServerProcess, tmp_path: Path, title: str
) -> None:
    partibus = Partibus(guide_server.connection_string)
    partibus("fault", "clear")
    output = ""
    ran = 0
    for language, text in sections(GUIDE)[title]:
        if language == "sh":
            for line in text.splitlines():
                assert line.startswith("partibus ")
                partibus(*line.split()[1:])
        elif language == "python":
            output = run_program(guide_server, text, tmp_path)
        else:
            assert (language, text) == ("text", output)
            ran += 1
    assert ran == 1


def test_every_fault_of_the_guide_is_a_command() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    partibus = Partibus(None)
    offered = set(re.findall(r"^\W*(\w+)  +\S", partibus("fault", "--help").out, re.MULTILINE))
    named = set(re.findall(r"partibus fault (\w+)", text))
    assert named <= offered
    assert {"store", "worker", "latency", "throttle", "locks", "connections"} <= named


def test_the_hash_of_the_reference_is_the_one_in_use() -> None:
    from partibus.domain.partition_key import fragment_index

    code = next(text for language, text in sections(REFERENCE)["The hash"] if language == "py")
    documented: dict[str, object] = {}
    exec(code, documented)  # noqa: S102 - our own document
    function = documented["fragment_index"]
    assert callable(function)
    table = re.findall(r"^\| `(\S+)` \| `0x\w+` \| (\d+) \|", REFERENCE.read_text("utf-8"), re.M)
    assert len(table) == 9
    for key, index in table:
        assert function(key, 16) == fragment_index(key, 16) == int(index)
