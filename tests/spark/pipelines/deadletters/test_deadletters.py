"""`pipeline deadletters` against a real server: every dead letter is told of, and ends up once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from conformance.partitioning.operator import Operator
from pyspark_servicebus.pipelines.deadletters import (
    DeadLetterReport,
    DeadLetterSettings,
    deadletters,
)
from pyspark_servicebus.pipelines.deadletters.rewriting import PARKED_SOURCE
from pyspark_servicebus.pipelines.deadletters.rules import ATTEMPTS_PROPERTY
from pyspark_servicebus.pipelines.run.settings import SettingsError
from spark.pipelines.deadletters.letters import Letter, Letters, body_of
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]

NAMESPACE = """
[[queue]]
name = "PREFIX-orders"
enable_partitioning = true
partition_count = 4
[[queue]]
name = "PREFIX-bills"
enable_partitioning = true
partition_count = 4
requires_duplicate_detection = true
[[queue]]
name = "PREFIX-visits"
requires_session = true
[[queue]]
name = "PREFIX-parked"
[[queue]]
name = "PREFIX-small"
max_message_size_in_kilobytes = 1
[[queue]]
name = "PREFIX-quiet"
[[topic]]
name = "PREFIX-events"
[[topic.subscription]]
name = "audit"
"""
COUNTS = {"orders": 60, "bills": 12, "visits": 5, "events/Subscriptions/audit": 7}
SLOW = "Timeout after <n> ms calling <text> at <time>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("deadletters")
    config = directory / "namespace.toml"
    config.write_text("".join(NAMESPACE.replace("PREFIX", prefix) for prefix in ("look", "act")))
    with ServerProcess(directory, config, "--stores", "2") as server:
        yield server


def bury(place: ServerProcess, prefix: str) -> Letters:
    """Dead letters in four entities."""
    letters = Letters(place.connection_string)
    text = "Timeout after {0} ms calling 'srv-{0}' at 2026-01-01T10:00:00Z"
    orders = [
        Letter(
            b'{"order": %d}' % n,
            "MaxDeliveryCountExceeded",
            text.format(n),
            {"tenant": "acme" if n % 3 else "umbrella"},
            {"partition_key": f"k{n}"} if n % 2 else {},
        )
        for n in range(COUNTS["orders"])
    ]
    bills = [
        Letter(
            b'{"bill": %d}' % n if n else b"no json \x1b[31m",
            "Invalid",
            f"No currency in bill {n}",
            fields={"message_id": f"m{n}"},
        )
        for n in range(COUNTS["bills"])
    ]
    letters.bury(f"{prefix}-orders", orders)
    letters.bury(f"{prefix}-bills", bills)
    visits = [Letter(b"v%d" % n, "Sour", "", {}, {"session_id": "s"}) for n in range(5)]
    letters.bury(f"{prefix}-visits", visits)
    events = [Letter(b"e%d" % n, "Sour", "milk") for n in range(7)]
    letters.bury(f"{prefix}-events", events, f"{prefix}-events/Subscriptions/audit")
    return letters


def run(
    spark: SparkSession, place: ServerProcess, rules: Path | None = None, **given: Any
) -> DeadLetterReport:
    table = {"connection_string": place.connection_string, "wait": "0s", **given}
    if rules is not None:
        table["rules"] = str(rules)
    return deadletters(spark, DeadLetterSettings.from_table(table))


def written(path: Path, text: str) -> Path:
    file = path / "rules.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_report_of_all_dead_letters_and_of_what_rules_would_do(
    spark: SparkSession, place: ServerProcess, tmp_path: Path
) -> None:
    letters = bury(place, "look")
    where = {f"look-{name}": count for name, count in COUNTS.items()}
    report = run(
        spark,
        place,
        written(tmp_path, RULES),
        dry_run=True,
        entities=["LOOK-*"],
        output=str(tmp_path / "out"),
        samples=2,
        sample_characters=20,
    )
    assert report.counted == where
    assert report.total == sum(where.values())
    causes = {(cause.entity, cause.reason, cause.shape): cause for cause in report.causes}
    assert [(*key, cause.count) for key, cause in causes.items()] == [
        ("look-orders", "MaxDeliveryCountExceeded", SLOW, 60),
        ("look-bills", "Invalid", "No currency in bill <n>", 12),
        ("look-events/Subscriptions/audit", "Sour", "milk", 7),
        ("look-visits", "Sour", "", 5),
    ]
    assert all(len(cause.samples) == 2 for cause in report.causes)
    by_hour: dict[str, int] = {}
    for hour in report.hours:
        by_hour[hour.entity] = by_hour.get(hour.entity, 0) + hour.count
    assert by_hour == where
    looked = {m.sequence_number: m for m in letters.dead("look-orders")}
    for sample in report.causes[0].samples:
        message = looked[sample.sequence_number]
        assert sample.body_preview == body_of(message).decode()
        assert round(sample.enqueued_time.timestamp() * 1000) == message.enqueued_ms
    assert {rule.rule: (rule.matched, rule.unfixable) for rule in report.rules} == {
        "umbrella": (20, 0),
        "timeouts": (40, 0),
        "currency": (12, 1),
        "visits": (5, 0),
        "large": (0, 0),
        "park": (7, 0),
    }
    assert report.without_rule == 0
    assert {path: len(letters.dead(path)) for path in where} == where
    check_files(tmp_path / "out", report)


def check_files(directory: Path, report: DeadLetterReport) -> None:
    told = json.loads((directory / "report.json").read_text())
    assert told["total"] == report.total
    assert [cause["count"] for cause in told["causes"]] == [60, 12, 7, 5]
    counts = parquet.read_table(directory / "causes.parquet").column("count").to_pylist()
    assert counts == [60, 12, 7, 5]
    hours = parquet.read_table(directory / "hours.parquet").column("count").to_pylist()
    assert sum(hours) == report.total
    assert parquet.read_table(directory / "samples.parquet").num_rows == 8
    text = (directory / "report.txt").read_text()
    assert text.startswith("84 dead letters in 4 entities, for 4 causes; 71 % are")
    assert "What would happen:" in text
    page = (directory / "report.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    for shown in (text, page):
        assert "\x1b" not in shown


RULES = """
[[rule]]
name = "umbrella"
when = { entity = "*orders", properties = { tenant = "umbrella" } }
action = "leave"

[[rule]]
name = "timeouts"
when = { reason = "MaxDelivery*", description = "timeout", attempts = 0 }
action = "resubmit"

[[rule]]
name = "currency"
when = { entity = "*bills" }
action = "fix"
set = { fixed = true }
body_merge = { currency = "EUR" }

[[rule]]
name = "visits"
when = { entity = "*visits" }
action = "resubmit"
delay = "1h"

[[rule]]
name = "large"
when = { reason = "Large" }
action = "park"
target = "act-small"

[[rule]]
name = "park"
when = { entity = "*events/*", younger_than = "1d" }
action = "park"
target = "act-parked"
"""


def test_rules_are_carried_out_once_for_each_message(
    spark: SparkSession, place: ServerProcess, tmp_path: Path
) -> None:
    letters = bury(place, "act")
    large = Letter(b"x" * 5000, "Large", "", {}, {"partition_key": "k"})
    letters.bury("act-orders", [large])
    report = run(spark, place, written(tmp_path, RULES), entities=["act-*"])
    counts = {rule.rule: (rule.done, rule.failed, rule.gone, rule.held) for rule in report.rules}
    assert counts == {
        "umbrella": (0, 0, 0, 0),
        "timeouts": (40, 0, 0, 0),
        "currency": (11, 1, 0, 0),
        "visits": (5, 0, 0, 0),
        "large": (0, 1, 0, 0),
        "park": (7, 0, 0, 0),
    }
    assert report.failed == 2
    assert "act-orders: message" in report.problems[0]
    orders = {body_of(m): m for m in letters.look("act-orders")}
    assert sorted(orders) == sorted(b'{"order": %d}' % n for n in range(60) if n % 3)
    assert all(m.application_properties[ATTEMPTS_PROPERTY] == 1 for m in orders.values())
    left = [b'{"order": %d}' % n for n in range(60) if not n % 3]
    assert letters.dead_bodies("act-orders") == sorted([*left, large.body])
    fixed = sorted(b'{"bill":%d,"currency":"EUR"}' % n for n in range(1, 12))
    assert letters.bodies("act-bills") == fixed
    assert letters.dead_bodies("act-bills") == [b"no json \x1b[31m"]
    assert {m.application_properties["fixed"] for m in letters.look("act-bills")} == {True}
    visits = letters.look("act-visits")
    assert {(m.state, m.properties.group_id) for m in visits} == {("scheduled", "s")}
    parked = letters.look("act-parked")
    assert len(parked) == 7
    audit = "act-events/Subscriptions/audit"
    assert {m.application_properties[PARKED_SOURCE] for m in parked} == {audit}
    assert letters.dead(audit) == []
    assert Operator(place).entity("act-small")["totals"]["active"] == 0
    check_second_run(spark, place, letters, tmp_path)


def check_second_run(
    spark: SparkSession, place: ServerProcess, letters: Letters, tmp_path: Path
) -> None:
    """What died again is counted in the message, and the next rule takes it."""
    letters.kill("act-orders")
    rules = written(
        tmp_path,
        """
        [[rule]]
        name = "again"
        action = "resubmit"
        max_attempts = 1
        [[rule]]
        name = "enough"
        when = { attempts = ">=1" }
        action = "purge"
        """,
    )
    report = run(spark, place, rules, entities=["act-orders"])
    assert [rule.done for rule in report.rules] == [21, 40]
    assert len(letters.look("act-orders")) == 21
    assert letters.dead("act-orders") == []


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"entities": ["nothing*"]}, "entities: no queue or subscription matches 'nothing\\*'"),
        ({"entitis": "x"}, "entitis: unknown setting; did you mean entities"),
        ({"samples": "many"}, "samples: 'many' is not a whole number"),
    ],
)
def test_wrong_settings(
    spark: SparkSession, place: ServerProcess, table: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        run(spark, place, **table)


def test_a_target_that_does_not_exist(
    spark: SparkSession, place: ServerProcess, tmp_path: Path
) -> None:
    Letters(place.connection_string).bury("act-quiet", [Letter()])
    rules = written(tmp_path, '[[rule]]\nname = "p"\naction = "park"\ntarget = "nowhere"\n')
    with pytest.raises(SettingsError, match="rule 'p', target: there is no queue or topic"):
        run(spark, place, rules, entities=["act-quiet"])


def test_an_empty_namespace(spark: SparkSession, place: ServerProcess) -> None:
    report = run(spark, place, entities=["look-quiet"])
    assert report.as_text() == "No dead letters in 1 entity."
