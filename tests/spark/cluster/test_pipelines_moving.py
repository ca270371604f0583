"""Pipelines that consume messages, on a cluster that loses an executor in the middle of a task.

Each is a job of the examples, by spark-submit. Every message is where its pipeline puts it, once,
and nothing of it is left behind.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cluster import Cluster

from conformance.settlement.steps import until
from spark.bus import Bus
from spark.cluster.reconciling import (
    as_peeked,
    assert_nothing_held,
    by_number,
    fill,
    job_options,
    message,
    number_of,
    pipeline_bus,
    reference,
)
from spark.cluster.submitted import submit
from spark.pipelines.capture.captures import table_rows
from spark.pipelines.deadletters.letters import Letter, Letters

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
]
COUNT: Final = 2000
BATCH: Final = 200
LETTERS: Final = 1200
SPOILED: Final = frozenset(range(7, COUNT, 20))
"""The numbers for which the function of rows fails."""


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    with pipeline_bus(tmp_path_factory.mktemp("pipelines")) as running:
        yield running


def arrived(bus: Bus, queue: str, numbers: Iterable[int]) -> dict[int, Any]:
    """The messages of these numbers are in a queue, each once, and no others."""
    wanted = sorted(numbers)
    until(f"{len(wanted)} in {queue}", lambda: bus.totals(queue)["active"] >= len(wanted))
    found = bus.peek(queue)
    assert sorted(int(each.message_id.removeprefix("m-")) for each in found) == wanted
    return {int(each.message_id.removeprefix("m-")): each for each in found}


# --- transforms -----------------------------------------------------------------------------

SQL: Final = """
select concat('cooked ', cast(body as string)) as body, message_id, partition_key, subject
from messages
"""
ROWS: Final = """
def served(row):
    number = int(row["body"][:6])
    if number % 20 == 7:
        raise ValueError(f"{number} is spoiled")
    row["subject"] = f"n{number}"
    return row
"""


def transform(
    cluster: Cluster, bus: Bus, place: Path, source: str, target: str, *how: str
) -> dict[str, Any]:
    """An executor is killed when some batches are published; gives the report."""
    fill(bus, source, COUNT)
    given = ["--source", source, "--target", target, "--max-messages", str(BATCH), *how]
    given += ["--source-options", "minPartitions=2", "--checkpoint", str(place / "checkpoint")]
    given += job_options(place, bus)
    with submit(cluster, place, "transform.py", *given) as job:
        job.kill_an_executor_at_work(lambda: bus.totals(target)["active"] > BATCH, "some batches")
        report = job.report()
    assert report["read"] == COUNT == report["written"] + report["failed"]
    assert bus.left(source) == (0, 0, 0)
    return report


def test_sql_sends_every_message_on_once(cluster: Cluster, bus: Bus, tmp_path: Path) -> None:
    transform(cluster, bus, tmp_path, "raw", "cooked", "--sql", SQL)
    for number, found in arrived(bus, "cooked", range(COUNT)).items():
        sent = message(number)
        assert b"".join(found.body) == b"cooked %s" % sent.body
        assert (found.partition_key, found.subject) == (sent.partition_key, sent.subject)
    assert_nothing_held(bus, "raw", "cooked")


def test_a_function_of_rows_sends_or_fails_every_message_once(
    cluster: Cluster, bus: Bus, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(ROWS)
    how = ["--rows", f"{tmp_path}/work.py:served", "--failure-queue", "spoiled"]
    report = transform(cluster, bus, tmp_path, "rows", "served", *how)
    assert report["failed"] == len(SPOILED)
    arrived(bus, "spoiled", SPOILED)
    for number, found in arrived(bus, "served", set(range(COUNT)) - SPOILED).items():
        assert (b"".join(found.body), found.subject) == (message(number).body, f"n{number}")
    assert_nothing_held(bus, "rows", "served", "spoiled")


# --- a declared pipeline --------------------------------------------------------------------

DECLARED: Final = """
name = "declared"
[bus]
connection_string_ref = "{reference}"
[source]
queue = "declared"
max_messages = {batch}
min_partitions = 2
[[step]]
rows = "work.py:served"
[[step]]
select = ["fragment", "sequence_number", "body", "subject"]
[sink]
delta = "table"
failure_queue = "refused"
"""


def test_a_declared_pipeline_fills_a_table(cluster: Cluster, bus: Bus, tmp_path: Path) -> None:
    """With steps that fail for some messages, so that each batch is worked on in several jobs."""
    fill(bus, "declared", COUNT)
    waiting = as_peeked(bus, "declared")
    file, table = tmp_path / "declared.toml", tmp_path / "table"
    file.write_text(DECLARED.format(reference=reference(bus), batch=BATCH))
    (tmp_path / "work.py").write_text(ROWS)
    given = [str(file), "--state-dir", str(tmp_path / "state")]
    with submit(cluster, tmp_path, "declared.py", *given) as job:
        commits = table / "_delta_log"
        job.kill_an_executor_at_work(lambda: len(list(commits.glob("*.json"))) > 2, "commits")
        told = job.ended()
    sent = COUNT - len(SPOILED)
    assert f"{COUNT:,} messages of declared read, {sent:,} sent on, {len(SPOILED)} failed" in told
    rows = by_number(table_rows(table))
    good = {number: body for number, body in waiting.items() if number_of(body) not in SPOILED}
    assert {number: row["body"] for number, row in rows.items()} == good
    assert all(row["fragment"] == number >> 48 for number, row in rows.items())
    assert all(row["subject"] == f"n{number_of(row['body'])}" for row in rows.values())
    arrived(bus, "refused", SPOILED)
    assert bus.left("declared") == (0, 0, 0)
    assert_nothing_held(bus, "declared", "refused")


# --- dead letters ---------------------------------------------------------------------------

RULES: Final = """
[[rule]]
name = "again"
when = { description = "[0-3]$" }
action = "resubmit"
[[rule]]
name = "for a person"
when = { description = "[4-6]$" }
action = "park"
target = "parked"
[[rule]]
name = "away"
when = { description = "[78]$" }
action = "purge"
"""


def test_rules_decide_about_every_dead_letter_once(
    cluster: Cluster, bus: Bus, tmp_path: Path
) -> None:
    letters = Letters(bus.connection_string)
    made = [Letter(b"%06d" % n, "Sour", f"number {n}") for n in range(LETTERS)]
    letters.bury("dead", made)
    (tmp_path / "rules.toml").write_text(RULES)
    given = ["--entities", "dead", "--rules", str(tmp_path / "rules.toml")]
    with submit(cluster, tmp_path, "deadletters.py", *given, *job_options(tmp_path, bus)) as job:
        # The rules are carried out by the driver: the executors read, and decide.
        job.kill_an_executor_at_work(lambda: True)
        report = job.report()
    assert report["total"] == LETTERS
    done = {
        rule["rule"]: (rule["matched"], rule["done"], rule["failed"]) for rule in report["rules"]
    }
    tenth = LETTERS // 10
    shares = {"again": 4 * tenth, "for a person": 3 * tenth, "away": 2 * tenth}
    assert done == {rule: (count, count, 0) for rule, count in shares.items()}
    until("couriers to be done", lambda: bus.totals("dead")["transfer"] == 0)
    for path, digits in {"dead": "0123", "parked": "456", "dead/$DeadLetterQueue": "9"}.items():
        found = sorted(number_of(body) for body in letters.bodies(path))
        assert found == [n for n in range(LETTERS) if str(n % 10) in digits]
    assert_nothing_held(bus, "dead", "parked")
