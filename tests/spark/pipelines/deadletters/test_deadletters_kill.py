"""Rules are being carried out when the bus or the driver is killed: nothing is lost or doubled."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from conformance.partitioning.operator import Operator
from conformance.settlement.steps import until
from partibus.client.connection_string import parse_connection_string
from pyspark_servicebus.pipelines.deadletters import DeadLetterSettings, deadletters
from pyspark_servicebus.pipelines.deadletters.carrying_out import EntityWork
from pyspark_servicebus.pipelines.deadletters.rewriting import Destination
from pyspark_servicebus.pipelines.deadletters.rules import Rule
from spark.pipelines.deadletters.letters import Letter, Letters, body_of
from spark.pipelines.verbs import Process
from support.repository import ROOT
from support.server import SOURCE, ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]

NAMESPACE: Final = """
[[queue]]
name = "orders"
enable_partitioning = true
partition_count = 4
lock_duration = "PT15S"
[[queue]]
name = "parked"
"""
FRAGMENTS: Final = 4
COUNT: Final = 1500
START_SECONDS_MAX: Final = 400
RULES: Final = """
[[rule]]
name = "even"
when = { description = "[02468]$" }
action = "resubmit"
[[rule]]
name = "odd"
action = "park"
target = "parked"
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "namespace.toml"
    config.write_text(NAMESPACE)
    with ServerProcess(tmp_path, config, "--stores", "2") as server:
        yield server


def bury(place: ServerProcess) -> Letters:
    letters = Letters(place.connection_string)
    made = [Letter(b"%05d" % n, "Sour", f"number {n}") for n in range(COUNT)]
    letters.bury("orders", made)
    return letters


def check(place: ServerProcess, letters: Letters) -> None:
    """Every message is where its rule sends it, once."""
    operator = Operator(place)
    until("couriers to be done", lambda: operator.entity("orders")["totals"]["transfer"] == 0)
    assert letters.dead("orders") == []
    assert letters.bodies("orders") == [b"%05d" % n for n in range(0, COUNT, 2)]
    assert letters.bodies("parked") == [b"%05d" % n for n in range(1, COUNT, 2)]


async def test_the_bus_is_killed_three_times(place: ServerProcess) -> None:
    letters = await asyncio.to_thread(bury, place)
    moved, kills = 0, [asyncio.Event() for _ in range(3)]

    def advance(count: int) -> None:
        nonlocal moved
        moved += count
        for number, kill in enumerate(kills):
            if moved >= (number + 1) * COUNT // 4:
                kill.set()

    async def kill() -> None:
        for moment in kills:
            await moment.wait()
            await asyncio.to_thread(place.restart)

    work = await asyncio.to_thread(work_on, letters)
    work.advance = advance
    killer = asyncio.create_task(kill())
    outcome = await work.run(parse_connection_string(place.connection_string), None)
    await killer
    assert outcome.problems == []
    assert dict(outcome.done) == {0: COUNT // 2, 1: COUNT // 2}
    assert not outcome.failed + outcome.gone + outcome.held
    await asyncio.to_thread(check, place, letters)


def test_the_process_that_carries_out_is_killed_and_another_goes_on(place: ServerProcess) -> None:
    letters = bury(place)
    environment = os.environ | {"BUS": place.connection_string}
    environment["PYTHONPATH"] = os.pathsep.join(
        (str(SOURCE), str(ROOT / "tests"), str(ROOT / "tools"))
    )
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment)
    try:
        until_in_the_middle(Operator(place), process)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    left = len(letters.dead("orders"))
    assert 0 < left < COUNT
    work = work_on(letters)
    outcome = asyncio.run(work.run(parse_connection_string(place.connection_string), None))
    assert sum(outcome.done.values()) == left
    assert not outcome.failed + outcome.gone + outcome.held
    check(place, letters)


PROGRAM: Final = """
import asyncio, os
from partibus.client.connection_string import parse_connection_string
from spark.pipelines.deadletters.letters import Letters
from spark.pipelines.deadletters.test_deadletters_kill import work_on

bus = os.environ["BUS"]
asyncio.run(work_on(Letters(bus)).run(parse_connection_string(bus), None))
"""


def work_on(letters: Letters) -> EntityWork:
    """What the rules below say of the dead letters that are there."""
    bodies = {m.sequence_number: int(body_of(m)) for m in letters.dead("orders")}
    own = Destination(path="orders", fragments=FRAGMENTS, is_own=True, detects_duplicates=False)
    other = Destination(path="parked", fragments=1, is_own=False, detects_duplicates=False)
    return EntityWork(
        entity="orders",
        wanted={number: body % 2 for number, body in bodies.items()},
        rules=(Rule(name="even", action="resubmit"), Rule(name="odd", action="park")),
        goals={0: own, 1: other},
        wait_s=40,
        retry_s=60,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_driver_is_killed_and_run_again(
    spark: SparkSession, place: ServerProcess, tmp_path: Path
) -> None:
    letters = bury(place)
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    operator = Operator(place)
    words = ["--connection-string-ref", "env:BUS", "--rules", rules, "--samples", "0"]
    words += ["--master", "local[1]", "--state-dir", tmp_path / "state"]
    log = tmp_path / "job.log"
    with Process.job(place.connection_string, log, "deadletters", *words) as job:
        job.until("some are moved", lambda: is_in_the_middle(operator))
    left = operator.entity("orders")["totals"]["dead_letter"]
    assert 0 < left < COUNT
    table = {"connection_string": place.connection_string, "rules": str(rules), "samples": 0}
    report = deadletters(spark, DeadLetterSettings.from_table(table))
    assert sum(rule.done for rule in report.rules) == report.total == left
    assert report.failed == 0
    check(place, letters)


def is_in_the_middle(operator: Operator) -> bool:
    return bool(operator.entity("parked")["totals"]["active"] > COUNT // 8)


def until_in_the_middle(operator: Operator, process: "subprocess.Popen[bytes]") -> None:
    """Wait until some messages are moved; a JVM takes its time to start on a busy machine."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_in_the_middle(operator):
        assert time.monotonic() < deadline, "the job moves nothing"
        if process.poll() is not None:
            return
        threading.Event().wait(0.02)
