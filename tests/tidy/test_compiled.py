"""Rules about compiled modules: those that run are up to date, those listed exist."""

import ast

from partibus.ops.compiled import REMEDY, outdated
from support.repository import ROOT, name_of


def hot_modules() -> dict[str, str]:
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "HOT":
            assert node.value is not None
            listed: dict[str, str] = ast.literal_eval(node.value)
            return listed
    raise AssertionError("setup.py has no list of hot modules")


def test_no_compiled_module_is_older_than_its_source() -> None:
    old = [name_of(source) for source in outdated((ROOT / "src").rglob("*.so"))]
    assert not old, REMEDY


def test_the_modules_to_compile_exist() -> None:
    listed = hot_modules()
    assert listed
    for folder, names in listed.items():
        for name in names.split():
            file = ROOT.joinpath("src/partibus", *folder.split("."), f"{name}.py")
            assert file.exists(), (folder, name)
