"""The kit for Node: the example of the guide under node:test, with the stock client."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.kit.test_guide import SECONDS_MAX, blocks, environment
from support.groups import JS
from support.repository import ROOT

KIT = ROOT / "kits" / "node"

pytestmark = pytest.mark.group("javascript")


def node_modules(directory: Path, **further: Path) -> None:
    """The packages that a reader of the guide has installed."""
    modules = directory / "node_modules"
    modules.mkdir()
    (modules / "@azure").symlink_to((JS / "node_modules" / "@azure").resolve())
    shutil.copytree(KIT, modules / "partibus-testing")
    for name, path in further.items():
        shutil.copytree(path, modules / name)


def run_tests(directory: Path, **variables: str) -> str:
    done = subprocess.run(
        ["node", "--test", "orders.test.mjs"],
        cwd=directory,
        env=environment(directory) | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    node_modules(tmp_path)
    example = blocks("Node", "js")[0]
    (tmp_path / "orders.test.mjs").write_text(example, encoding="utf-8")
    assert "# pass 2" in run_tests(tmp_path)


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    node_modules(tmp_path)
    program = 'import { startServer } from "partibus-testing";\n'
    program += 'await startServer({ command: "no-such-command" });\n'
    path = tmp_path / "program.mjs"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        ["node", str(path)],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "partibus did not start" in done.stderr
    assert "no-such-command" in done.stderr


def test_what_the_types_name_is_there() -> None:
    types = (KIT / "index.d.ts").read_text(encoding="utf-8")
    source = (KIT / "index.js").read_text(encoding="utf-8")
    names = set(re.findall(r"export (?:class|function) (\w+)", types))
    exported = set(re.findall(r"export (?:async )?(?:class|function) (\w+)", source))
    assert names == exported
    for method in re.findall(r"^  (\w+)\(", types, re.MULTILINE):
        assert re.search(rf"\b{method}(?:\(|:)", source), method
