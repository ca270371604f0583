"""Rules about compiled modules: those that run are up to date, those listed exist."""

import ast
from pathlib import Path
from typing import Any

from partibus.ops.compiled import REMEDY, outdated
from support.repository import ROOT, name_of

SOURCE = ROOT / "src" / "partibus"


def listed(name: str) -> Any:
    """A table of setup.py."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name:
            assert node.value is not None
            return ast.literal_eval(node.value)
    raise AssertionError(f"setup.py has no table {name}")


def file_of(module: str) -> Path:
    return SOURCE.joinpath(*module.split(".")).with_suffix(".py")


def test_no_compiled_module_is_older_than_its_source() -> None:
    old = [name_of(source) for source in outdated((ROOT / "src").rglob("*.so"))]
    assert not old, REMEDY


def test_the_modules_to_compile_exist() -> None:
    others = [
        f"{folder}.{name}" for folder, names in listed("OTHERS").items() for name in names.split()
    ]
    for name in (*others, *listed("INTERPRETED")):
        assert file_of(name).exists(), name
    for package in listed("WHOLE"):
        assert (SOURCE / package / "__init__.py").exists(), package


def test_what_is_not_compiled_has_a_reason_and_a_package_that_is() -> None:
    for name, reason in listed("INTERPRETED").items():
        assert reason
        assert name.partition(".")[0] in listed("WHOLE"), name
