"""Rules about the layout: small folders, one class of a name, nothing that is left over.

A folder is a feature. When one grows beyond the limit, it is two features: find the second one
and give it a folder, instead of a longer list.
"""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

from spark.conftest import LONGEST_FILES
from support.repository import ROOT, name_of, python_modules

MODULES_MAX = 25

SOURCE = python_modules("src")
PRODUCT = python_modules("src", "tools", "bench")
EVERY = python_modules("src", "tools", "bench", "tests", "examples")

WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def package_of(path: Path) -> str:
    """The package below the distribution: partibus.fragment for all of its folders."""
    return ".".join(path.relative_to(ROOT / "src").parent.parts[:2])


def constants(path: Path) -> list[str]:
    """The names that a module assigns at its top, in capitals."""
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name.isupper()]


def test_a_folder_holds_few_modules() -> None:
    counts = Counter(path.parent for path in EVERY if path.name != "__init__.py")
    crowded = {name_of(folder): count for folder, count in counts.items() if count > MODULES_MAX}
    assert not crowded


def test_a_file_that_begins_first_exists() -> None:
    names = {path.name for path in EVERY if (ROOT / "tests" / "spark") in path.parents}
    assert names.issuperset(LONGEST_FILES)


def test_every_folder_of_the_product_is_a_package() -> None:
    folders = {path.parent for path in SOURCE} - {ROOT / "src"}
    assert not [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_a_class_name_is_used_once_in_a_package() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in SOURCE:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[package_of(path), node.name].append(name_of(path))
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_a_constant_is_used_by_the_product() -> None:
    words = Counter(
        word for path in PRODUCT for word in WORD.findall(path.read_text(encoding="utf-8"))
    )
    unused = [
        (name_of(path), name) for path in PRODUCT for name in constants(path) if words[name] == 1
    ]
    assert not unused
