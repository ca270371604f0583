"""From entity to entity: messages are read, transformed by SQL or functions, and sent on.

Owns the query: a source that consumes (claim) or follows (cursor), the steps, and the sink, in this
order and with nothing collected on the driver. Everything that can be checked without messages is
reported before one is touched. Called by `partibus pipeline transform`, by scripts, and by declared
pipelines.
"""

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from pyspark_servicebus.pipelines.report.wording import counted
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.progress import (
    SILENT,
    Advanced,
    PipelineFailed,
    Progress,
    watch,
)
from pyspark_servicebus.pipelines.run.reports import JsonReport
from pyspark_servicebus.pipelines.run.session import keep_errors_quiet
from pyspark_servicebus.pipelines.transform.batches import BatchWork, Counts
from pyspark_servicebus.pipelines.transform.check import Checked, check_entities, check_transform
from pyspark_servicebus.pipelines.transform.outlets import query_id_in
from pyspark_servicebus.pipelines.transform.settings import TransformSettings
from pyspark_servicebus.pipelines.transform.state_function import PROVIDER, PROVIDER_SETTING
from pyspark_servicebus.pipelines.transform.steps import StepContext, apply_steps, spark_words
from pyspark_servicebus.schema import TARGET_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_OBSERVED: Final = "transform"
STARTS_MAX: Final = 3
NOT_BEGUN: Final = "Python worker failed to connect back"


@dataclass(frozen=True, slots=True)
class TransformReport(JsonReport):
    """What a run has done."""

    name: str
    source: str
    target: str
    batches: int
    read: int
    """Messages that were read."""
    written: int
    """Messages that were sent on, without those that failed."""
    failed: int
    """Messages that went to the queue for failures."""
    seconds: float

    def as_text(self) -> str:
        """For people."""
        if not self.batches:
            return f"{self.name}: nothing waits in {self.source}."
        failed = f", {self.failed:,} failed" if self.failed else ""
        batches = counted(self.batches, "batch", "batches")
        return (
            f"{self.name}: {self.read:,} messages of {self.source} read, {self.written:,} sent on"
            f"{failed}; {batches} in {self.seconds:.1f} s."
        )


def check_names(settings: TransformSettings) -> None:
    """Check that the bus has the entities, and that they are of the right kind."""
    check_entities(settings)


def transform(
    spark: "SparkSession", settings: TransformSettings, progress: Progress = SILENT
) -> TransformReport:
    """Run a transform until nothing waits, or, if continuous, until it is interrupted."""
    session = own_session(spark)
    checked = check_transform(session, settings)
    began = time.monotonic()
    counts = Counts()
    progress.started(settings.owner, None)
    try:
        _follow(session, settings, checked, counts, progress)
    except KeyboardInterrupt:
        if not settings.continuous:
            raise
    finally:
        progress.finished()
    return TransformReport(
        settings.owner,
        settings.source,
        settings.target,
        counts.batches,
        counts.read,
        counts.written,
        counts.failed,
        round(time.monotonic() - began, 3),
    )


def _follow(
    session: "SparkSession",
    settings: TransformSettings,
    checked: Checked,
    counts: Counts,
    progress: Progress,
) -> None:
    """The query from its start to its end.

    Spark gives its Python processes ten seconds to start, which is short on a busy machine; when
    restarted the query continues where it was.
    """
    rows_of = counts.rows_of if settings.searches else None
    for left in reversed(range(STARTS_MAX)):
        query = start(session, settings, checked, counts)
        try:
            watch(query, _counting(query, counts, progress), rows_of)
            return
        except PipelineFailed as error:
            if not left or NOT_BEGUN not in str(error):
                raise


def own_session(spark: "SparkSession") -> "SparkSession":
    """A session of the same application with its own views and settings."""
    keep_errors_quiet()
    session = spark.newSession()
    for name, value in spark.conf.getAll.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    session.conf.set(PROVIDER_SETTING, PROVIDER)
    return session


def start(
    session: "SparkSession", settings: TransformSettings, checked: Checked, counts: Counts
) -> "StreamingQuery":
    """Start the query."""
    frame = session.readStream.format("servicebus").options(**settings.read_options()).load()
    frame = settings.watermarked(frame)
    writer = _writer(frame, settings, checked, counts)
    writer = writer.option("checkpointLocation", settings.checkpoint).queryName(settings.owner)
    if settings.continuous:
        writer = writer.trigger(processingTime=f"{settings.interval_ms} milliseconds")
    else:
        writer = writer.trigger(availableNow=True)
    try:
        return writer.start()
    except PySparkException as error:
        raise PipelineFailed(spark_words(error)) from error


def _writer(
    frame: "DataFrame", settings: TransformSettings, checked: Checked, counts: Counts
) -> "DataStreamWriter":
    steps = settings.all_steps()
    context = StepContext(settings.beside, settings.failure_queue)
    outlet = settings.outlet_for(checked.target_kind)
    query_id = functools.partial(query_id_in, settings.checkpoint)
    if settings.failure_queue is None or not settings.searches:
        made = _observed(apply_steps(frame, steps, context), settings.failure_queue)
        return outlet.stream(made, query_id)
    failures = settings.failure_outlet()
    inline = next((n for n, step in enumerate(steps, 1) if step.kind == "stateful"), 0)
    work = BatchWork(
        steps[inline:],
        StepContext(settings.beside, None),
        settings.failures_max,
        settings.failure_queue,
        lambda batch, batch_id: outlet.write(batch, batch_id, query_id()),
        lambda batch, batch_id: failures.write(batch, batch_id, query_id()),
        counts,
    )
    return apply_steps(frame, steps[:inline], context).writeStream.foreachBatch(work)


def _observed(frame: "DataFrame", failure_queue: str | None) -> "DataFrame":
    """Count what is written as it passes."""
    from pyspark.sql import functions as f

    failed = f.lit(False)
    if failure_queue is not None and TARGET_COLUMN in frame.columns:
        failed = f.coalesce(f.col(TARGET_COLUMN) == failure_queue, f.lit(False))
    return frame.observe(
        _OBSERVED,
        f.count(f.when(~failed, 1)).alias("written"),
        f.count(f.when(failed, 1)).alias("failed"),
    )


def _counting(query: "StreamingQuery", counts: Counts, progress: Progress) -> Advanced:
    """Adds up the reports of a query, and passes them on."""
    seen = -1

    def advanced(rows: int, lag: int | None, batch: int) -> None:
        nonlocal seen
        counts.read += rows
        counts.batches += 1
        for report in query.recentProgress:
            if seen < report.batchId <= batch and report.observedMetrics:
                observed = report.observedMetrics.get(_OBSERVED)
                if observed is not None:
                    counts.written += observed.written
                    counts.failed += observed.failed
                seen = report.batchId
        progress.advanced(rows, lag, batch)

    return advanced


main = functools.partial(
    script_main,
    name="transform",
    description="Messages from entity to entity, by SQL or functions.",
    settings=TransformSettings,
    work=transform,
)
"""The script for spark-submit; returns the exit code."""
