"""Rules for every test: known rule ids, known groups, and no silent omission.

A test that cites a rule which the rule book does not define is an error. A test of a group
whose tool is missing is skipped, and the run ends by naming the group and the one command
that brings it; under PARTIBUS_CI every omission is a failure.
"""

import os
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from rulebook import rule_ids

from support.garbage import collect_garbage
from support.groups import GROUPS, absent_groups

if TYPE_CHECKING:
    from support.postgres import PostgresServer

IN_CI = bool(os.environ.get("PARTIBUS_CI"))
# No test depends on how fast a machine is: an example may take its time.
settings.register_profile("partibus", settings(), deadline=None)
settings.load_profile("partibus")

HERE = Path(__file__).parent
LONG = ("deploy", "upgrade", "documents")
"""Folders whose tests take up to minutes: begun last, one of them would keep a run waiting. Each is
for one process, since its tests share what they prepare."""
SPREAD = "adversity"
"""Another one, whose tests share nothing beyond their file: for all other processes."""


def pytest_configure() -> None:
    absent_groups()  # before the processes of xdist start, which then need not ask again


@pytest.hookimpl(trylast=True)  # what was deselected is not in any block
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = _with_long_ones_first(items)
    known = rule_ids()
    absent = absent_groups()
    for item in items:
        unknown = [
            rule for mark in item.iter_markers("rule") for rule in mark.args if rule not in known
        ]
        if unknown:
            raise pytest.UsageError(f"{item.nodeid} cites rules that do not exist: {unknown}")
        for mark in item.iter_markers("group"):
            name = mark.args[0]
            if name not in GROUPS:
                raise pytest.UsageError(f"{item.nodeid} is of the unknown group {name!r}")
            if name in absent:
                item.add_marker(pytest.mark.skip(reason=f"needs {absent[name].needs}"))


def _with_long_ones_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Each process begins with a block of the tests; the long ones are at the front of blocks."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    fronts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, name in enumerate(LONG):
        fronts[number % processes] += [item for item in items if _folder(item) == name]
    spread = fronts[len(LONG) :] or fronts
    files = groupby((item for item in items if _folder(item) == SPREAD), lambda item: item.path)
    for number, (_, tests) in enumerate(files):
        spread[number % len(spread)] += tests
    rest = [item for item in items if _folder(item) not in (*LONG, SPREAD)]
    ordered: list[pytest.Item] = []
    for number, front in enumerate(fronts):
        block = (len(items) - len(ordered)) // (processes - number)
        fill = max(0, block - len(front))
        ordered += front + rest[:fill]
        del rest[:fill]
    return ordered + rest


def _folder(item: pytest.Item) -> str:
    return _first_part(item.path)


@cache
def _first_part(path: Path) -> str:
    return path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: a collection of garbage need not visit them.

    Many tests collect when they end, to find what they have left open.
    """
    collect_garbage()


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server for all tests of a process; each uses lanes of its own."""
    from support.postgres import PostgresServer

    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    yield
    if IN_CI and exitstatus == pytest.ExitCode.OK and _skip_reasons(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last words of a run: what it left out, and how to bring it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reasons = _skip_reasons(config)
    if reporter is None or config.getoption("collectonly") or config.getoption("help"):
        return
    for report in reporter.stats.get("passed", []) + reporter.stats.get("failed", []):
        for name, value in report.user_properties:
            if name == "seeds":
                reporter.write_line(f"fresh seeds of the simulator: {value}")
    absent = absent_groups()
    for name, group in absent.items():
        reporter.write_line(
            f"left out: {name}, which needs {group.needs}. Bring it: {group.command}"
        )
    for reason in sorted(reasons - {f"needs {group.needs}" for group in absent.values()}):
        reporter.write_line(f"left out: {reason}")
    if config.getoption("markexpr") == "not slow":
        reporter.write_line("left out: the slow tests. Run them: make test-all")
    if IN_CI and reasons:
        reporter.write_line("PARTIBUS_CI: nothing may be left out, so this run failed.", red=True)


def _skip_reasons(config: pytest.Config) -> set[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    return {str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped}
