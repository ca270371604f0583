"""The tables of a report, computed from the snapshot of dead letters in Spark.

Owns the queries: causes, hours, samples, which rules match. They are few, since every query costs
Spark seconds: one pass counts everything at once, and the driver adds it up. The results are small.
"""

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark_servicebus.pipelines.deadletters.reading import DEFERRED
from pyspark_servicebus.pipelines.deadletters.report import Cause, Hour, Sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CAUSES_MAX: Final = 1000
Key = tuple[str, str, str]
_T = TypeVar("_T")
_KEY: Final = ("entity", "reason", "shape")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead letters of one cause, hour and rule."""

    entity: str
    reason: str
    shape: str
    hour: datetime.datetime
    rule: int
    is_deferred: bool
    count: int
    problems: int
    first: datetime.datetime
    last: datetime.datetime
    attempts_max: int
    body_bytes: int

    @property
    def key(self) -> Key:
        return self.entity, self.reason, self.shape


class Tables:
    """The results of one snapshot; made with one pass over it."""

    def __init__(self, messages: "DataFrame", samples_per_cause: int) -> None:
        self._messages = messages
        self._samples_per_cause = samples_per_cause
        self._groups = [_record(Group, row) for row in grouped(messages).collect()]

    @property
    def total(self) -> int:
        return sum(group.count for group in self._groups)

    @property
    def deferred(self) -> int:
        """Dead letters that can be received only by number."""
        return sum(group.count for group in self._groups if group.is_deferred)

    def fitting(self) -> dict[int, tuple[int, int]]:
        """For every rule, by index, how many it matches and how many of them it cannot change."""
        fits, problems = Counter[int](), Counter[int]()
        for group in self._groups:
            if not group.is_deferred:
                fits[group.rule] += group.count
                problems[group.rule] += group.problems
        return {rule: (count, problems[rule]) for rule, count in fits.items()}

    def hours(self) -> tuple[Hour, ...]:
        """Counts by the hour in which the messages were enqueued."""
        counts = Counter[tuple[datetime.datetime, str, str]]()
        for group in self._groups:
            counts[group.hour, group.entity, group.reason] += group.count
        return tuple(
            Hour(hour=hour, entity=entity, reason=reason, count=counts[hour, entity, reason])
            for hour, entity, reason in sorted(counts)
        )

    def causes(self) -> tuple[tuple[Cause, ...], int]:
        """Causes with their samples, the largest first, and how many were omitted."""
        groups: dict[Key, list[Group]] = {}
        for group in self._groups:
            groups.setdefault(group.key, []).append(group)
        counts = {key: sum(group.count for group in some) for key, some in groups.items()}
        order = sorted(groups, key=lambda key: (-counts[key], key))[:CAUSES_MAX]
        samples = self._samples()
        found = tuple(_cause(key, groups[key], samples.get(key, [])) for key in order)
        return found, len(groups) - len(found)

    def _samples(self) -> dict[Key, list[Sample]]:
        """The newest dead letters of each cause."""
        if not self._samples_per_cause:
            return {}
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        newest = Window.partitionBy(*_KEY).orderBy(f.desc("enqueued_time"), "sequence_number")
        numbered = self._messages.withColumn("place", f.row_number().over(newest))
        found: dict[Key, list[Sample]] = {}
        for row in numbered.where(f.col("place") <= self._samples_per_cause).collect():
            key = row["entity"], row["reason"], row["shape"]
            found.setdefault(key, []).append(_record(Sample, row))
        return found

    def wanted(self, rules: list[int]) -> dict[str, dict[int, int]]:
        """The messages that these rules decide about: the rule by number, by entity."""
        from pyspark.sql import functions as f

        chosen = self._messages.where(f.col("rule").isin(rules) & f.col("problem").isNull())
        table = chosen.select("entity", "sequence_number", "rule").toArrow()
        found: dict[str, dict[int, int]] = {}
        columns = [table.column(name).to_pylist() for name in table.column_names]
        for entity, number, rule in zip(*columns, strict=True):
            found.setdefault(entity, {})[number] = rule
        return found


def grouped(messages: "DataFrame") -> "DataFrame":
    """All counts, in one pass."""
    from pyspark.sql import functions as f

    hour = f.date_trunc("hour", "enqueued_time").alias("hour")
    is_deferred = (f.coalesce("problem", f.lit("")) == DEFERRED).alias("is_deferred")
    return messages.groupBy(*_KEY, hour, "rule", is_deferred).agg(
        f.count("*").alias("count"),
        f.count("problem").alias("problems"),
        f.min("enqueued_time").alias("first"),
        f.max("enqueued_time").alias("last"),
        f.max("attempts").alias("attempts_max"),
        f.sum("body_bytes").alias("body_bytes"),
    )


def _cause(key: Key, groups: Iterable[Group], samples: list[Sample]) -> Cause:
    some = list(groups)
    return Cause(
        entity=key[0],
        reason=key[1],
        shape=key[2],
        count=sum(group.count for group in some),
        first=min(group.first for group in some),
        last=max(group.last for group in some),
        attempts_max=max(group.attempts_max for group in some),
        body_bytes=sum(group.body_bytes for group in some),
        samples=tuple(sorted(samples, key=lambda sample: sample.sequence_number)),
    )


def _record(kind: type[_T], row: Any) -> _T:
    """A record from the columns with its names, in UTC.

    Spark returns times without a zone, in that of this machine.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {name: row[name] for name in names}
    for name, value in values.items():
        if isinstance(value, datetime.datetime):
            values[name] = value.astimezone(datetime.UTC)
    return kind(**values)
