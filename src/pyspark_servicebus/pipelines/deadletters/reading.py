"""Dead letters in Spark: read from every entity, given a shape, a rule and a safe preview.

Owns the data frame for the reports and the rules: a row for each dead letter, small, because bodies
are truncated in the workers. The bus is read once; everything else uses that snapshot. It must
never change anything.
"""

import datetime
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from partibus.domain.moments import timestamp_ms
from pyspark_servicebus.pipelines.deadletters.rewriting import NotFixable, patched
from pyspark_servicebus.pipelines.deadletters.rules import (
    NO_RULE,
    DeadLetter,
    Rule,
    attempts_of,
    decide,
)
from pyspark_servicebus.pipelines.deadletters.text_shape import safe_text, text_shape
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.schema import arrow_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

READ: Final = (
    "sequence_number",
    "fragment",
    "enqueued_time",
    "state",
    "message_id",
    "subject",
    "dead_letter_reason",
    "dead_letter_description",
    "application_properties",
    "body_type",
    "body",
)
SCHEMA: Final = (
    "entity string, sequence_number bigint, fragment int, enqueued_time timestamp, "
    "message_id string, subject string, reason string, description string, shape string, "
    "attempts int, body_bytes bigint, body_preview string, rule int, problem string"
)
DESCRIPTION_CHARACTERS_MAX: Final = 500
NO_REASON: Final = "(none)"
DEFERRED: Final = "it is deferred in the dead-letter queue"
TEXT_CHARACTERS_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class Triage:
    """What a worker needs to know to classify dead letters."""

    rules: tuple[Rule, ...]
    now_ms: int
    preview_characters: int

    def batch(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Dead letters as the source returns them, with the rule of each."""
        import pyarrow as pa

        rows = [self._row(row) for row in batch.to_pylist()]
        return pa.RecordBatch.from_pylist(rows, schema=arrow_of(SCHEMA))

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        properties = dict(row["application_properties"] or {})
        description = row["dead_letter_description"] or ""
        shape, body = text_shape(description), row["body"] or b""
        enqueued: datetime.datetime = row["enqueued_time"]
        letter = DeadLetter(
            entity=row["entity"],
            reason=row["dead_letter_reason"] or NO_REASON,
            description=description,
            shape=shape,
            properties=properties,
            attempts=attempts_of(properties),
            age_ms=self.now_ms - timestamp_ms(enqueued),
        )
        rule, problem = self._decision(letter, row)
        return {
            "entity": letter.entity,
            "sequence_number": row["sequence_number"],
            "fragment": row["fragment"],
            "enqueued_time": enqueued,
            "message_id": safe_text(row["message_id"] or "", TEXT_CHARACTERS_MAX),
            "subject": safe_text(row["subject"] or "", TEXT_CHARACTERS_MAX),
            "reason": safe_text(letter.reason, TEXT_CHARACTERS_MAX),
            "description": safe_text(description, DESCRIPTION_CHARACTERS_MAX),
            "shape": shape,
            "attempts": letter.attempts,
            "body_bytes": len(body),
            "body_preview": safe_text(body, self.preview_characters),
            "rule": rule,
            "problem": problem,
        }

    def _decision(self, letter: DeadLetter, row: dict[str, Any]) -> tuple[int, str | None]:
        if row["state"] == "deferred":
            return NO_RULE, DEFERRED
        index = decide(self.rules, letter)
        if index == NO_RULE or self.rules[index].body_merge is None:
            return index, None
        if row["body_type"] != "data":
            return index, f"its body is an AMQP {row['body_type']}, but body_merge needs JSON"
        try:
            patched(row["body"] or b"", self.rules[index].body_merge)
        except NotFixable as problem:
            return index, str(problem)
        return index, None


def dead_letters(
    spark: "SparkSession", bus: BusPlace, entities: Sequence[EntityInfo], triage: Triage
) -> "DataFrame":
    """The dead letters of these entities, with the rule of each; read lazily."""
    from pyspark.sql import functions as f

    frames = []
    for entity in entities:
        source = spark.read.format("servicebus").options(**bus.options(), **entity.source_options())
        frame = source.options(subQueue="deadletter", columns=",".join(READ)).load()
        frames.append(frame.withColumn("entity", f.lit(entity.path)))

    def judge(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return map(triage.batch, batches)

    together = functools.reduce(lambda one, other: one.unionByName(other), frames)
    return together.mapInArrow(judge, SCHEMA)
