"""Dashboards and alert rules name metrics that a real server has, and labels that they carry."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.signals.scrape import read
from support.namespace import write_namespace
from support.repository import ROOT
from support.server import ServerProcess

DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "partibus.rules.yml"
NAME = re.compile(r"\bpartibus_[a-z_]+")
PARTS = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("dashboards")
    with ServerProcess(directory, write_namespace(directory / "namespace.toml")) as server:
        yield read(server)[1]


def families(scrape: str) -> set[str]:
    return {line.split()[2] for line in scrape.splitlines() if line.startswith("# TYPE")}


def expressions_of(dashboard: dict[str, Any]) -> list[str]:
    variables = [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    targets = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    return variables + targets


def rule_expressions() -> list[str]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def unknown(expression: str, known: set[str]) -> set[str]:
    names = set(NAME.findall(expression))
    assert names, f"{expression} names no metric of ours"
    return {
        name
        for name in names
        if name not in known
        and not any(name.endswith(part) and name.removesuffix(part) in known for part in PARTS)
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_what_is_measured(path: Path, scrape: str) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"partibus-{path.stem}"
    assert len(dashboard["panels"]) >= 8
    known = families(scrape)
    wrong = {text: unknown(text, known) for text in expressions_of(dashboard)}
    assert not {text: names for text, names in wrong.items() if names}


def test_the_rules_watch_what_is_measured(scrape: str) -> None:
    known = families(scrape)
    wrong = {text: unknown(text, known) for text in rule_expressions()}
    assert len(wrong) >= 8
    assert not {text: names for text, names in wrong.items() if names}


@pytest.mark.group("prometheus")
def test_prometheus_accepts_the_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.group("prometheus")
def test_prometheus_accepts_a_scrape(scrape: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=scrape, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
