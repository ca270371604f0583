"""The plug-in as pytest finds it: by its entry point, with settings, beside other fixtures."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from partibus.testing import Server
from support.repository import ROOT
from support.server import SOURCE

SECONDS_MAX = 240
LOOP_SCOPE = "asyncio_default_fixture_loop_scope = function\n"

SUITE = """
import sys

def test_one_that_uses_nothing():
    assert not [name for name in sys.modules if name.startswith("partibus.client")]

def test_declared_entities_are_in_every_namespace(namespace, bus):
    assert namespace.entities() == ["declared"] == bus.own.entities()

def test_reset_brings_them_back(namespace, reset, faults):
    namespace.create_queue("another")
    faults.latency("1ms")
    namespace.delete_entity("declared")
    reset()
    assert namespace.entities() == ["declared"]
    assert faults.active() == []

def test_the_string_and_the_certificate(connection_string, ca_file, namespace):
    assert f"SharedAccessKeyName={namespace.name};" in connection_string
    assert open(ca_file).read().startswith("-----BEGIN CERTIFICATE-----")
"""

FAILING = """
def test_what_a_failure_says(namespace):
    namespace.create_queue("orders")
    namespace.assert_messages("orders", ["hello"])
"""

ATTACHED = """
import pytest

@pytest.fixture
def clock():
    return "my own"

def test_of_a_server_that_runs(bus, namespace, clock):
    assert clock == "my own"
    assert "theirs" in bus.own.entities()
    assert namespace.entities() == []
"""


def run(directory: Path, suite: str, settings: str = "", **variables: str) -> tuple[int, str]:
    """pytest with the entry points of our distribution, as if it were installed."""
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"{name} = {target}" for name, target in entry_points["pytest11"].items()]
    info = directory / "installed" / "kit-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kit\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    (directory / "test_suite.py").write_text(suite)
    (directory / "pytest.ini").write_text(f"[pytest]\n{LOOP_SCOPE}{settings}")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PARTIBUS_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=directory,
        env=kept | {"PYTHONPATH": f"{SOURCE}:{info.parent}"} | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_fixtures_and_settings(tmp_path: Path) -> None:
    (tmp_path / "entities.toml").write_text('[[queue]]\nname = "declared"\n')
    code, output = run(tmp_path, SUITE, "partibus_config = entities.toml\npartibus_stores = 2\n")
    assert code == 0, output
    assert "4 passed" in output


def test_a_failure_says_what_was_found(tmp_path: Path) -> None:
    code, output = run(tmp_path, FAILING)
    assert code == 1
    assert "AssertionError: orders: expected 1 message, found 0 messages" in output
    assert "- missing: body='hello'" in output


def test_a_server_that_runs_already(tmp_path: Path, kit_server: Server) -> None:
    kit_server.own.create_queue("theirs")
    try:
        variable = {"PARTIBUS_TEST_CONNECTION_STRING": kit_server.connection_string}
        code, output = run(tmp_path, ATTACHED, **variable)
    finally:
        kit_server.own.reset()
    assert code == 0, output


def test_more_than_one_file_is_refused(tmp_path: Path) -> None:
    code, output = run(tmp_path, FAILING, "partibus_config = a.toml b.toml\n")
    assert code == 1
    assert "partibus_config takes exactly one file" in output
