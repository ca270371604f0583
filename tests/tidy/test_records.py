"""Rules about the written record: decisions, changelog, dependencies, versions, rule book."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from rulebook import rules_by_section

import partibus
from support.repository import ROOT, name_of

ADR = ROOT / "docs" / "adr"
RECORDS = sorted(ADR.glob("[0-9]*.md"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CHANGELOG_SECTIONS = ["Breaking", "Safety and performance", "Features", "Fixes", "Internals"]


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_decision_records_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("path", RECORDS, ids=name_of)
def test_a_decision_record_is_listed_and_whole(path: Path) -> None:
    assert f"({path.name})" in (ADR / "README.md").read_text(encoding="utf-8")
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.name[:4]}: ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert re.search(r"^Status: (proposed|accepted|superseded by \d{4})", text, re.MULTILINE)


def test_the_changelog_has_the_five_sections_for_every_version() -> None:
    _, *versions = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)
    assert versions
    for version in versions:
        assert re.match(r"\d+\.\d+\.\d+ \((?:unreleased|\d{4}-\d{2}-\d{2})\)\n", version)
        assert re.findall(r"^### (.*)$", version, re.MULTILINE) == CHANGELOG_SECTIONS


def test_the_version_is_the_same_everywhere(project: dict[str, dict[str, object]]) -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+)", CHANGELOG, re.MULTILINE)
    assert newest is not None
    assert partibus.__version__ == project["project"]["version"] == newest.group(1)


def test_every_dependency_has_a_line_in_the_decision(project: dict[str, dict[str, object]]) -> None:
    table = project["project"]
    required = [*table["dependencies"], *project["build-system"]["requires"]]
    for several in (table["optional-dependencies"], project["dependency-groups"]):
        required += [requirement for extra in several.values() for requirement in extra]
    names = {re.split(r"[\[<>=;! ]", requirement)[0] for requirement in required}
    names |= _javascript_dependencies() | _java_dependencies()
    names |= _go_dependencies() | _rust_dependencies()
    recorded = set(re.findall(r"`([^`]+)`", (ADR / "0005-dependencies.md").read_text("utf-8")))
    assert names <= recorded


def test_the_makefile_asks_for_what_there_is(project: dict[str, dict[str, object]]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    groups = set(re.findall(r"--group (\w+)", makefile))
    extras = {
        name for names in re.findall(r"'\.\[([\w,]+)\]'", makefile) for name in names.split(",")
    }
    assert {"test", "proton"} <= groups <= project["dependency-groups"].keys()
    assert {"spark"} <= extras <= project["project"]["optional-dependencies"].keys()


def test_every_command_of_the_makefile_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    for target in set(" ".join(phony).split()) - {"FORCE"}:
        assert re.search(rf"^{target}:.* ## \S", makefile, re.MULTILINE), target


def test_a_rule_is_defined_once() -> None:
    rules = [rule for section in rules_by_section().values() for rule in section]
    assert len(rules) > 400
    assert len(rules) == len(set(rules))


def _javascript_dependencies() -> set[str]:
    names: set[str] = set()
    for folder in ("tests/conformance/js", "console"):
        package = json.loads((ROOT / folder / "package.json").read_text(encoding="utf-8"))
        names |= package.get("dependencies", {}).keys() | package.get("devDependencies", {}).keys()
    return names


def _java_dependencies() -> set[str]:
    pom = (ROOT / "tests" / "conformance" / "java" / "pom.xml").read_text(encoding="utf-8")
    dependencies = re.findall(r"<dependency>.*?<artifactId>([^<]+)<", pom, re.DOTALL)
    assert dependencies
    return set(dependencies)


def _go_dependencies() -> set[str]:
    module = (ROOT / "tests" / "conformance" / "go" / "go.mod").read_text(encoding="utf-8")
    direct = re.findall(r"^\t(\S+) v\S+$", module, re.MULTILINE)
    assert direct
    return set(direct)


def _rust_dependencies() -> set[str]:
    crate = (ROOT / "tests" / "conformance" / "rust" / "Cargo.toml").read_text(encoding="utf-8")
    return set(tomllib.loads(crate)["dependencies"])
