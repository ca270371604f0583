"""Dead letters of a namespace: their causes as a report, and rules carried out on them.

Owns the pipeline: which dead-letter queues are read, in one snapshot, what is reported about them,
and how a rules file is applied: messages are sent again, corrected, parked or deleted. Spark
decides; the driver carries it out, with a transaction for each message. Without rules, or with
`dry_run`, nothing on the bus is changed.
"""

import asyncio
import datetime
import functools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partibus.domain.duration import parse_duration
from partibus.domain.errors import BusError
from pyspark_servicebus.bus import discover
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.deadletters.carrying_out import EntityWork, Outcome, carry_out
from pyspark_servicebus.pipelines.deadletters.reading import Triage, dead_letters
from pyspark_servicebus.pipelines.deadletters.report import DeadLetterReport, RuleCount
from pyspark_servicebus.pipelines.deadletters.rewriting import Destination, own_entity
from pyspark_servicebus.pipelines.deadletters.rules import NO_RULE, SENDING, Rule
from pyspark_servicebus.pipelines.deadletters.settings import DeadLetterSettings
from pyspark_servicebus.pipelines.deadletters.tables import Tables
from pyspark_servicebus.pipelines.deadletters.writing import write_report
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.choosing import (
    chosen_entities,
    known_entities,
    reported_plainly,
)
from pyspark_servicebus.pipelines.run.globs import fits_any
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.pipelines.run.progress import SILENT, Progress
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.source.reading import Reading, good

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "deadletters"
LOCK_MS: Final = 60_000
LOCK_GRACE_MS: Final = 5_000
SIDE_BY_SIDE: Final = 4


def check_names(settings: DeadLetterSettings) -> None:
    """Check the rules, and that the bus has the entities and destinations."""
    prepared(settings)


def deadletters(
    spark: "SparkSession", settings: DeadLetterSettings, progress: Progress = SILENT
) -> DeadLetterReport:
    """Read the dead letters of a namespace, report on them, and carry out the rules."""
    with reported_plainly():
        report = _triaged(spark, settings, progress)
    return report if settings.output is None else write_report(Path(settings.output), report)


def _triaged(
    spark: "SparkSession", settings: DeadLetterSettings, progress: Progress
) -> DeadLetterReport:
    plan = prepared(settings)
    if not plan.having:
        return _report(settings, plan, None)
    triage = Triage(plan.rules, round(time.time() * 1000), settings.sample_characters)
    frame = dead_letters(spark, settings.bus, plan.having, triage).persist()
    try:
        tables = Tables(frame, settings.samples)
        report = _report(settings, plan, tables)
        if not plan.rules or settings.dry_run:
            progress.advanced(report.total, None, 0)
            return report
        return _carried_out(settings, report, _works(settings, plan, tables), progress)
    finally:
        frame.unpersist()


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known before anything is read."""

    rules: tuple[Rule, ...]
    counted: dict[str, int]
    """Dead letters by entity, of all that were selected."""
    having: list[EntityInfo]
    """Those with dead letters."""
    goals: dict[str, dict[int, Destination]]


def prepared(settings: DeadLetterSettings) -> Prepared:
    """Read the rules and ask the bus for what they need; every error is reported here, before Spark
    has to do anything."""
    rules = settings.loaded_rules()
    known = known_entities(settings.bus)
    chosen = chosen_entities(known, settings.entities)
    counted = {entity.path: _count(entity) for entity in chosen}
    having = [entity for entity in chosen if counted[entity.path]]
    goals = {entity.path: _goals(settings.bus, known, entity, rules) for entity in having}
    return Prepared(rules, counted, having, goals)


def _count(entity: EntityInfo) -> int:
    return int(entity.fields.get("counts", {}).get("dead_letter", 0))


# --- the report -------------------------------------------------------------------------------


def _report(
    settings: DeadLetterSettings, plan: Prepared, tables: Tables | None
) -> DeadLetterReport:
    causes, left_off = tables.causes() if tables is not None else ((), 0)
    fitting = tables.fitting() if tables is not None else {}
    return DeadLetterReport(
        namespace=settings.bus.namespace(),
        taken_at=datetime.datetime.now(datetime.UTC),
        entities_looked_at=len(plan.counted),
        counted={path: count for path, count in plan.counted.items() if count},
        total=tables.total if tables is not None else 0,
        causes=causes,
        causes_left_off=left_off,
        hours=tables.hours() if tables is not None else (),
        deferred=tables.deferred if tables is not None else 0,
        rules=tuple(
            RuleCount(rule=rule.name, action=rule.action, matched=matched, unfixable=unfixable)
            for rule, (matched, unfixable) in (
                (rule, fitting.get(index, (0, 0))) for index, rule in enumerate(plan.rules)
            )
        ),
        without_rule=fitting.get(NO_RULE, (0, 0))[0],
        has_rules=settings.rules is not None,
        is_dry_run=settings.dry_run,
    )


# --- the rules --------------------------------------------------------------------------------


def _goals(
    bus: BusPlace, known: Sequence[EntityInfo], entity: EntityInfo, rules: Sequence[Rule]
) -> dict[int, Destination]:
    """Where each rule sends dead letters of an entity; SettingsError for missing targets."""
    by_path = {info.path.lower(): info for info in known if info.kind != "subscription"}
    own = own_entity(entity.path)
    goals: dict[int, Destination] = {}
    fragments: dict[str, int] = {}
    for index, rule in enumerate(rules):
        if rule.action not in SENDING or not fits_any(rule.when.entities, entity.path):
            continue
        path = rule.target or own
        info = by_path.get(path.lower())
        if info is None:
            raise SettingsError(
                f"rules: rule '{rule.name}', target: there is no queue or topic '{path}'. Make it "
                f"with `partibus queue create {path}`, or name another."
            )
        if info.path not in fragments:
            fragments[info.path] = len(discover(bus.access(info.path), info.path).locations)
        goals[index] = Destination(
            path=info.path,
            fragments=fragments[info.path],
            is_own=path.lower() == own.lower(),
            detects_duplicates=info.detects_duplicates,
        )
    return goals


def _works(settings: DeadLetterSettings, plan: Prepared, tables: Tables) -> list[EntityWork]:
    """What has to be done, by entity."""
    acting = [index for index, rule in enumerate(plan.rules) if rule.action != "leave"]
    wanted = tables.wanted(acting)
    return [
        EntityWork(
            entity=entity.path,
            wanted=wanted[entity.path],
            rules=plan.rules,
            goals=plan.goals[entity.path],
            wait_s=_wait_ms(settings, entity) / 1000,
            retry_s=settings.retry_ms / 1000,
            fragments_up=functools.partial(_fragments_up, settings.bus, entity),
        )
        for entity in plan.having
        if entity.path in wanted
    ]


def _fragments_up(bus: BusPlace, entity: EntityInfo) -> set[int]:
    """The fragments of an entity that answer."""
    options = {**bus.options(), **entity.source_options(), "subQueue": "deadletter"}
    reading = Reading(source_options(options, is_stream=False))
    try:
        indexes = reading.fragments()
        return set(good(reading.ask("status", indexes, sub_queue="deadletter"), "up"))
    except BulkError:
        return set()
    finally:
        reading.close()


def _wait_ms(settings: DeadLetterSettings, entity: EntityInfo) -> int:
    if settings.wait_ms is not None:
        return settings.wait_ms
    try:
        lock_ms = parse_duration(str(entity.fields.get("lock_duration", "")))
    except BusError:
        lock_ms = LOCK_MS
    return lock_ms + LOCK_GRACE_MS


def _carried_out(
    settings: DeadLetterSettings,
    report: DeadLetterReport,
    works: list[EntityWork],
    progress: Progress,
) -> DeadLetterReport:
    left = sum(len(work.wanted) for work in works)
    progress.started("carrying out rules", left)

    def advance(count: int) -> None:
        nonlocal left
        left -= count
        progress.advanced(count, left, 0)

    for work in works:
        work.advance = advance
    place = settings.bus.connection()
    outcomes = asyncio.run(carry_out(works, place, settings.bus.ca_file, SIDE_BY_SIDE))
    progress.finished()
    return _with_outcomes(report, outcomes)


def _with_outcomes(report: DeadLetterReport, outcomes: Sequence[Outcome]) -> DeadLetterReport:
    """The report with the outcomes of the dead letters."""
    done, failed, gone, held = (Counter[int]() for _ in range(4))
    for outcome in outcomes:
        done += outcome.done
        failed += outcome.failed
        gone += outcome.gone
        held += outcome.held
    counts = tuple(
        replace(
            count,
            done=done[index],
            failed=failed[index] + count.unfixable,
            gone=gone[index],
            held=held[index],
        )
        for index, count in enumerate(report.rules)
    )
    problems = tuple(text for outcome in outcomes for text in outcome.problems)
    return replace(report, rules=counts, problems=problems)


main = functools.partial(
    script_main,
    name=NAME,
    description="Report on the dead letters of a namespace, and carry out rules on them.",
    settings=DeadLetterSettings,
    work=deadletters,
)
"""The script for spark-submit; returns the exit code."""
