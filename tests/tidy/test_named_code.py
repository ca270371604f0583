"""Pages about the internals name code that exists, and the architecture names every part.

A code span such as `fragment.machine.Machine.apply` is a module below `partibus` and what is in
it; on the page about the fragment machine it is one below `partibus.fragment`.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.repository import ROOT, name_of

SOURCE = ROOT / "src" / "partibus"
INTERNALS = ROOT / "docs" / "internals"
PAGES = sorted(INTERNALS.glob("*.md"))
SPAN = re.compile(r"`([a-z_]+(?:\.\w+)+)`")
PART = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.MULTILINE)
FILES = (".py", ".db", ".toml")


def names_in(nodes: Iterable[ast.stmt]) -> dict[str, ast.stmt]:
    """What a module or a class defines."""
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[ast.unparse(node.target)] = node
    return found


def exists(folder: Path, parts: list[str]) -> bool:
    """Whether there is such a module or package, and such a name in it."""
    for at, part in enumerate(parts):
        module = (folder / part).with_suffix(".py")
        if module.exists():
            return is_defined(module, parts[at + 1 :])
        folder /= part
        if not folder.is_dir():
            return False
    return True


def is_defined(module: Path, names: list[str]) -> bool:
    defined = names_in(ast.parse(module.read_text(encoding="utf-8")).body)
    for name in names:
        node = defined.get(name)
        if node is None:
            return False
        defined = names_in(node.body) if isinstance(node, ast.ClassDef) else {}
    return True


def named(page: Path) -> set[str]:
    """The code spans that begin with one of our packages."""
    ours = {path.name for folder in (SOURCE, SOURCE / "fragment") for path in folder.iterdir()}
    spans = SPAN.findall(page.read_text(encoding="utf-8"))
    return {span for span in spans if span.split(".")[0] in ours and not span.endswith(FILES)}


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_code_that_a_page_names_exists(page: Path) -> None:
    folders = (SOURCE, SOURCE / "fragment")
    gone = [s for s in named(page) if not any(exists(each, s.split(".")) for each in folders)]
    assert not gone


def test_the_walks_name_code_of_every_part_on_the_way() -> None:
    parts = {span.split(".")[0] for span in named(INTERNALS / "architecture.md")}
    assert {"listener", "amqp", "gateway", "message", "fragment", "store", "cluster"} <= parts


def test_the_architecture_has_every_part() -> None:
    page = (INTERNALS / "architecture.md").read_text(encoding="utf-8")
    shown = re.findall(r"`(\w+)`", "".join(PART.findall(page)))
    packages = {name_of(path.parent).split("/")[-1] for path in SOURCE.glob("*/__init__.py")}
    assert sorted(shown) == sorted(packages)
