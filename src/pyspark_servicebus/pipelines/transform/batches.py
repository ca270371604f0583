"""Batches in which some messages fail: those go to a separate queue, the others to the target.

Owns the work of one batch where a step applies to whole frames, so that only a search can find the
messages it fails for. The batch is cached during the search. It is written only when every message
has an outcome. Called by Spark through `foreachBatch`, on the driver.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON
from pyspark_servicebus.errors import condition_of
from pyspark_servicebus.pipelines.run.progress import plain_words
from pyspark_servicebus.pipelines.transform import failed_rows
from pyspark_servicebus.pipelines.transform.steps import (
    Step,
    StepContext,
    apply_steps,
    spark_words,
)
from pyspark_servicebus.schema import COLUMNS, GIVEN_BY_THE_BUS, TARGET_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NUMBER: Final = "$row"


@dataclass(slots=True)
class Counts:
    """What a run has done."""

    batches: int = 0
    read: int = 0
    written: int = 0
    failed: int = 0
    by_batch: dict[int, int] = field(default_factory=dict)
    """Messages read for each batch, if the reports of the query do not contain it."""

    def rows_of(self, batch_id: int) -> int:
        """How many messages a batch had."""
        return self.by_batch.get(batch_id, 0)


@dataclass(slots=True)
class BatchWork:
    """What `foreachBatch` calls."""

    steps: Sequence[Step]
    context: StepContext
    failures_max: int
    failure_queue: str
    write: Callable[["DataFrame", int], None]
    """Writes a batch; writing it again must have no further effect."""
    write_failures: Callable[["DataFrame", int], None]
    counts: Counts
    _kept: "list[DataFrame]" = field(init=False, default_factory=list)
    """Results that are needed again in this batch."""

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        try:
            self._write(self._numbered(batch), batch_id)
        finally:
            for frame in self._kept:
                frame.unpersist()
            self._kept = []

    def _write(self, numbered: "DataFrame", batch_id: int) -> None:
        counts = self.counts
        counts.by_batch[batch_id] = numbered.count()
        good, failures = self._apart(numbered)
        for part in parts_of(self.steps):
            work = self._row_step if part[0].knows_rows else self._frame_steps
            good, failed = work(part, good)
            failures += failed
        counts.failed += self._write_failures(failures, batch_id)
        made = good.drop(NUMBER)
        self.write(made, batch_id)
        counts.written += made.count()

    def _numbered(self, frame: "DataFrame") -> "DataFrame":
        """The frame with a number for each row; its rows are computed once."""
        found = frame.withColumn(NUMBER, f.monotonically_increasing_id()).persist()
        self._kept.append(found)
        return found

    # --- which messages fail --------------------------------------------------------------

    def _apart(self, numbered: "DataFrame") -> "tuple[DataFrame, list[DataFrame]]":
        """The rows to process, and those for which a step has already failed."""
        if TARGET_COLUMN not in numbered.columns:
            return numbered, []
        failed = f.coalesce(
            (f.col(TARGET_COLUMN) == self.failure_queue)
            & (f.col("application_properties")[DEAD_LETTER_REASON] == failed_rows.FAILED),
            f.lit(False),
        )
        return numbered.where(~failed), [numbered.where(failed)]

    def _row_step(
        self, steps: Sequence[Step], rows: "DataFrame"
    ) -> "tuple[DataFrame, list[DataFrame]]":
        """A step that reports which rows fail."""
        context = StepContext(self.context.beside, self.failure_queue)
        return self._apart(self._numbered(apply_steps(rows.drop(NUMBER), steps, context)))

    def _frame_steps(
        self, steps: Sequence[Step], rows: "DataFrame"
    ) -> "tuple[DataFrame, list[DataFrame]]":
        """Steps on whole frames; rows that make them fail are searched for."""
        made = self._numbered(self._made(steps, rows))
        text = self._error_of(made.count)
        if text is None:
            return made, []
        bad = self._search(steps, rows, text)
        good = rows.where(~f.col(NUMBER).isin(list(bad)))
        return self._numbered(self._made(steps, good)), [self._failures(rows, bad)]

    def _made(self, steps: Sequence[Step], rows: "DataFrame") -> "DataFrame":
        return apply_steps(rows.drop(NUMBER), steps, self.context)

    def _error_of(self, work: Callable[[], object]) -> str | None:
        """Run steps without writing; returns their error."""
        try:
            work()
        except PySparkException as error:
            if condition_of(error) is not None:  # of the bus or the sink, not of a row
                raise
            return spark_words(plain_words(str(error)))
        return None

    def _attempt(self, steps: Sequence[Step], rows: "DataFrame") -> str | None:
        made = self._made(steps, rows)
        return self._error_of(made.write.format("noop").mode("overwrite").save)

    def _search(self, steps: Sequence[Step], whole: "DataFrame", text: str) -> dict[int, str]:
        numbers = sorted(row[0] for row in whole.select(NUMBER).collect())
        tried = {(numbers[0], numbers[-1]): text}

        def attempt(part: Sequence[int]) -> str | None:
            if known := tried.get((part[0], part[-1])):
                return known
            return self._attempt(steps, whole.where(f.col(NUMBER).between(part[0], part[-1])))

        return failed_rows.failing_numbers(numbers, attempt, self.failures_max)

    # --- where they go --------------------------------------------------------------------

    def _write_failures(self, failures: "list[DataFrame]", batch_id: int) -> int:
        """Send all failed messages; returns how many there are."""
        if not failures:
            return 0
        found = _sendable(failures[0])
        for more in failures[1:]:
            found = found.unionByName(_sendable(more), allowMissingColumns=True)
        found = found.persist()
        self._kept.append(found)
        count = found.count()
        if count:
            self.write_failures(found, batch_id)
        return count

    def _failures(self, whole: "DataFrame", bad: dict[int, str]) -> "DataFrame":
        """The original messages, with the reason in the properties of dead letters."""
        rows = [(number, text[: failed_rows.TEXT_CHARACTERS_MAX]) for number, text in bad.items()]
        texts = whole.sparkSession.createDataFrame(rows, f"`{NUMBER}` bigint, `$text` string")
        failed = whole.join(f.broadcast(texts), NUMBER)
        failed = failed.withColumn("application_properties", _with_reason(failed.columns))
        return failed.drop("$text")


def _sendable(failed: "DataFrame") -> "DataFrame":
    """The columns of a failed row that make up a message; steps may have added more."""
    names = [n for n in failed.columns if n in COLUMNS and n not in GIVEN_BY_THE_BUS]
    return failed.select(*names).withColumn("body", f.col("body").cast("binary"))


def parts_of(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps that are tried together: row steps alone, consecutive others together."""
    parts: list[list[Step]] = []
    for step in steps:
        if parts and not step.knows_rows and not parts[-1][0].knows_rows:
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def _with_reason(columns: list[str]) -> "Column":
    origin = f.col("entity") if "entity" in columns else f.lit(None).cast("string")
    reported = f.create_map(
        *(f.lit(DEAD_LETTER_REASON), f.lit(failed_rows.FAILED)),
        *(f.lit(DEAD_LETTER_DESCRIPTION), f.col("$text")),
        *(f.lit(failed_rows.ORIGIN), origin),
    )
    if "application_properties" not in columns:
        return reported
    names = (DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION, failed_rows.ORIGIN)
    others = f.map_filter("application_properties", lambda name, _: ~name.isin(*names))
    return f.map_concat(f.coalesce(others, f.create_map().cast("map<string,string>")), reported)
