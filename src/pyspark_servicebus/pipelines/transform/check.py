"""Whether a transform can work, checked before anything is read.

Owns the checks of entities with the bus, and of columns with Spark: the steps are applied to an
empty frame with the columns of the source, and the sink checks the result. It must never touch a
message. Called by `transform` before it begins, and by `partibus pipeline check`.
"""

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.run.choosing import find_entity
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.transform.settings import TransformSettings
from pyspark_servicebus.pipelines.transform.steps import (
    StepContext,
    StepError,
    apply_steps,
    spark_words,
)
from pyspark_servicebus.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a successful check."""

    target_kind: str
    """queue or topic; empty when rows leave the bus."""
    schema: "StructType"
    """The resulting columns of the steps."""

    def columns(self) -> dict[str, str]:
        """The columns of what is sent, with their types."""
        return {field.name: field.dataType.simpleString() for field in self.schema.fields}

    def as_text(self) -> str:
        """For people."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns().items())
        return f"Messages are made of: {columns}."


def check_transform(spark: "SparkSession", settings: TransformSettings) -> Checked:
    """Everything that can be checked without a message; SettingsError says what is wrong."""
    kind = check_entities(settings)
    read = _judged(settings)
    schema = check_steps(spark, settings, read)
    settings.outlet_for(kind).check(schema)
    return Checked(kind, schema)


def check_entities(settings: TransformSettings) -> str:
    """Whether the bus has the named entities, of the right kind; returns the kind of the target."""
    source = find_entity(settings.bus, "source", settings.source)
    if source.kind == "topic":
        raise SettingsError(
            f"source: '{settings.source}' is a topic; name a subscription of it: "
            f"{settings.source}/Subscriptions/NAME."
        )
    if settings.mode == "claim" and source.requires_session:
        raise SettingsError(
            f"mode: '{settings.source}' requires sessions, which cannot be claimed; write cursor."
        )
    if settings.failure_queue is not None:
        failures = find_entity(settings.bus, "failure_queue", settings.failure_queue)
        if failures.requires_session:
            raise SettingsError(
                f"failure_queue: '{settings.failure_queue}' requires sessions, but failing "
                "messages may have none; name a queue without sessions."
            )
    return "" if settings.outlet is not None else _check_target(settings)


def _check_target(settings: TransformSettings) -> str:
    target = find_entity(settings.bus, "target", settings.target)
    if target.kind == "subscription":
        raise SettingsError("target: messages are sent to queues and topics, not subscriptions.")
    if settings.deliver == "dedup" and not target.detects_duplicates:
        raise SettingsError(
            f"deliver: '{settings.target}' does not detect duplicates, which dedup needs; write "
            "staged, or atLeastOnce."
        )
    return target.kind


def check_steps(
    spark: "SparkSession", settings: TransformSettings, columns: tuple[str, ...]
) -> "StructType":
    """The resulting columns of the steps, found on an empty frame."""
    steps = settings.all_steps()
    frame = spark.createDataFrame([], spark_schema(list(columns)))
    stateful = [number for number, step in enumerate(steps, 1) if step.kind == "stateful"]
    if len(stateful) > 1:
        raise StepError(stateful[1], "stateful", "a pipeline can have only one stateful step.")
    if stateful and settings.failure_queue is not None:
        for number, step in enumerate(steps[: stateful[0] - 1], 1):
            if not step.knows_rows:
                raise StepError(
                    number,
                    step.kind,
                    "before a stateful step, failing messages cannot be identified; put this "
                    "step after it, write it as rows, or drop failure_queue.",
                )
    context = StepContext(settings.beside, settings.failure_queue)
    schema = apply_steps(settings.watermarked(frame), steps, context).schema
    if not settings.searches:
        check_stream(spark, settings, frame.schema)
    return schema


def check_stream(spark: "SparkSession", settings: TransformSettings, schema: "StructType") -> None:
    """Whether the steps work on a stream: not everything that works on a frame does."""
    context = StepContext(settings.beside, settings.failure_queue)
    with tempfile.TemporaryDirectory() as empty:
        frame = spark.readStream.schema(schema).parquet(empty)
        made = apply_steps(settings.watermarked(frame), settings.all_steps(), context)
        try:
            jvm: Any = spark._jvm
            append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
            checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
            plan = made._jdf.queryExecution().analyzed()
            checker.checkForStreaming(plan, append)
        except AnalysisException as error:
            raise SettingsError(f"step: {_streaming_words(error)}") from None


def _streaming_words(error: AnalysisException) -> str:
    words = spark_words(error)
    if "watermark" in words:
        words += " Set watermark, and group by window(enqueued_time, ...)."
    return words


def _judged(settings: TransformSettings) -> tuple[str, ...]:
    try:
        return source_options(settings.read_options(), is_stream=True).columns
    except OptionsError as error:
        raise SettingsError(error.words) from None
