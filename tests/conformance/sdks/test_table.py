"""The table of operations in docs/compatibility.md has a "yes" exactly where a test is run."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from conformance.sdks.elsewhere import JAVASCRIPT, PYTHON
from conformance.sdks.operations import CLIENTS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HEADING = "## Operations by client"
COLUMNS = ["Python", "JavaScript", *CLIENTS]

Cells = set[tuple[str, str]]


def test_the_table_agrees_with_the_tests() -> None:
    run = set(_driven()) | _elsewhere()
    shown = _shown()
    assert shown - run == set(), 'these cells say "yes" and no test runs them'
    assert run - shown == set(), 'tests run these cells, which do not say "yes"'


def test_the_tests_elsewhere_are_there() -> None:
    for test in {*PYTHON.values(), *JAVASCRIPT.values()}:
        path, _, name = test.partition("::")
        text = (HERE.parent / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test


def _elsewhere() -> Cells:
    return {(name, "Python") for name in PYTHON} | {(name, "JavaScript") for name in JAVASCRIPT}


def _driven() -> Iterator[tuple[str, str]]:
    """Operation and client of every decorator of the tests beside this one."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "operation":
                name, *clients = (ast.literal_eval(argument) for argument in node.args)
                yield from ((name, client) for client in clients)


def _shown() -> Cells:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header == ["operation", *COLUMNS]
    assert rows
    cells: Cells = set()
    for name, *values in rows:
        assert set(values) <= {"yes", "-"}, name
        cells |= {(name, COLUMNS[at]) for at, value in enumerate(values) if value == "yes"}
    return cells
