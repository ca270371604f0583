"""The programs in the documents, run as they are pasted, against the sample namespace."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.groups import JS
from support.repository import ROOT, code_blocks
from support.server import ServerProcess

PROGRAM_SECONDS_MAX = 120


@pytest.fixture(scope="module")
def sample_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """What `make run` serves, on a free port."""
    directory = tmp_path_factory.mktemp("sample")
    with ServerProcess(directory, ROOT / "examples" / "namespace.toml") as process:
        yield process


def program(document: str, language: str, server: ServerProcess) -> str:
    """The first whole program of a language, with the port of this server."""
    texts = [text for text in code_blocks(ROOT / document, language) if "Endpoint=sb://" in text]
    assert texts[0].count("sb://localhost:5672;") == 1
    return texts[0].replace("sb://localhost:5672;", f"sb://localhost:{server.ready.amqp_port};")


def run(command: list[str], path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [*command, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_python_program_of_the_readme(sample_server: ServerProcess, tmp_path: Path) -> None:
    text = program("README.md", "python", sample_server)
    lines = run([sys.executable], tmp_path / "hello.py", text)
    assert [line.split(" ", 3)[-1] for line in lines] == ["order 1", "order 2", "order 3"]


@pytest.mark.group("javascript")
def test_the_javascript_program_of_the_readme(sample_server: ServerProcess) -> None:
    text = program("README.md", "js", sample_server)
    # Node looks for packages from the folder of the program upwards.
    path = JS / "node_modules" / ".hello.mjs"
    try:
        lines = run(["node"], path, text)
    finally:
        path.unlink()
    assert [line.rsplit("Z ", 1)[-1] for line in lines] == ["order 1", "order 2", "order 3"]


def test_the_failing_program_of_the_start_page(
    sample_server: ServerProcess, tmp_path: Path
) -> None:
    text = program("docs/start.md", "python", sample_server)
    lines = run([sys.executable], tmp_path / "failing.py", text)
    deliveries = [f"delivery {number}" for number in (1, 2, 3)]
    assert lines == [*deliveries, "dead-lettered: MaxDeliveryCountExceeded"]
