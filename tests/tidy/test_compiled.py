"""Rules about compiled modules: those that run are up to date, those listed exist."""

import ast

from partibus.ops.compiled import REMEDY, outdated
from support.repository import ROOT, name_of

WHOLE = ("amqp", "cluster", "fragment", "message")
"""Packages of which everything is compiled, unless setup.py says why not."""


def listed(name: str) -> dict[str, str]:
    """A table of setup.py."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            assert node.value is not None
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError(f"setup.py has no table {name}")


def hot_modules() -> set[str]:
    return {f"{folder}.{name}" for folder, names in listed("HOT").items() for name in names.split()}


def modules_of(package: str) -> set[str]:
    source = ROOT / "src" / "partibus"
    files = [path for path in (source / package).rglob("*.py") if path.name != "__init__.py"]
    return {".".join(path.relative_to(source).with_suffix("").parts) for path in files}


def test_no_compiled_module_is_older_than_its_source() -> None:
    old = [name_of(source) for source in outdated((ROOT / "src").rglob("*.so"))]
    assert not old, REMEDY


def test_the_modules_to_compile_exist() -> None:
    assert hot_modules()
    for name in sorted(hot_modules() | listed("INTERPRETED").keys()):
        assert (ROOT / "src/partibus").joinpath(*name.split(".")).with_suffix(".py").exists(), name


def test_what_is_not_compiled_has_a_reason() -> None:
    reasons = listed("INTERPRETED")
    assert all(reasons.values())
    assert not hot_modules() & reasons.keys()
    modules = set().union(*map(modules_of, WHOLE))
    assert modules - hot_modules() == reasons.keys(), "add it to HOT, or to INTERPRETED with why"
