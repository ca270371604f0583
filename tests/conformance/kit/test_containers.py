"""The modules for Testcontainers, on a stand-in: a process where a container would be.

No container engine is needed: what is tested is our module's image, ports, environment, wait and
connection string, against the API of Testcontainers as it was read. The image itself is not run.
"""

from pathlib import Path

import pytest

from conformance.kit.test_guide import blocks, run_suite, settings
from conformance.kit.test_node_kit import node_modules, run_tests
from support.repository import ROOT

STAND_IN = ROOT / "tests" / "support" / "container_stand_in"
CONFIG = '[[queue]]\nname = "declared"\n'


def test_the_python_module(tmp_path: Path) -> None:
    (suite,) = blocks("Containers", "python")
    assert "1 passed" in run_suite(tmp_path, suite, settings(), path=STAND_IN)


def test_a_file_of_entities(tmp_path: Path) -> None:
    config = tmp_path / "entities.toml"
    config.write_text(CONFIG, encoding="utf-8")
    (suite,) = blocks("Containers", "python")
    suite = suite.replace('"partibus:latest"', f'config="{config}"')
    suite = suite.replace('["orders"]', '["declared", "orders"]')
    assert "1 passed" in run_suite(tmp_path, suite, settings(), path=STAND_IN)


@pytest.mark.group("javascript")
def test_the_node_module(tmp_path: Path) -> None:
    node_modules(tmp_path, testcontainers=STAND_IN / "node")
    (example,) = blocks("Containers", "js")
    (tmp_path / "orders.test.mjs").write_text(example, encoding="utf-8")
    assert "# pass 1" in run_tests(tmp_path)


@pytest.mark.group("javascript")
def test_a_file_of_entities_with_node(tmp_path: Path) -> None:
    config = tmp_path / "entities.toml"
    config.write_text(CONFIG, encoding="utf-8")
    node_modules(tmp_path, testcontainers=STAND_IN / "node")
    (example,) = blocks("Containers", "js")
    example = example.replace(".start()", f'.withConfig("{config}").start()')
    example = example.replace('["orders"]', '["declared", "orders"]')
    (tmp_path / "orders.test.mjs").write_text(example, encoding="utf-8")
    assert "# pass 1" in run_tests(tmp_path)
