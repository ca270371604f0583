"""Rules about Python modules: a docstring, one purpose, honest names."""

import ast
from pathlib import Path

from support.repository import name_of, python_modules

DOCSTRING_LINES_MIN = 3
BANNED_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

PRODUCT = python_modules("src", "tools", "bench")
EVERY = PRODUCT + python_modules("tests")


def docstring_lines(path: Path) -> int:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return len((docstring or "").splitlines())


def test_a_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in EVERY if docstring_lines(path) == 0]
    assert not silent


def test_a_product_module_says_what_it_owns_and_who_calls_it() -> None:
    terse = [
        name_of(path)
        for path in PRODUCT
        if not path.stem.startswith("__") and docstring_lines(path) < DOCSTRING_LINES_MIN
    ]
    assert not terse


def test_a_module_has_a_name_that_says_something() -> None:
    vague = [name_of(path) for path in PRODUCT if BANNED_NAMES & {path.stem, path.parent.name}]
    assert not vague


def test_unit_tests_mirror_the_packages() -> None:
    packages = {path.parent.name for path in python_modules("src") if path.name == "__init__.py"}
    folders = {
        path.parent.name for path in python_modules("tests") if path.parent.parent.name == "unit"
    }
    assert folders <= packages
