"""The steps of a pipeline: SQL, expressions and functions, one after the other.

Owns the kinds of steps, the parameters of each, and how it is applied to a frame. Spark checks the
columns, on an empty frame as on a stream; its error is reported with the number of the step.
Nothing is read here. Called by `transform` and by declared pipelines.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest, no_such_key
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting
from pyspark_servicebus.pipelines.transform.functions import load_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIEW: Final = "messages"
"""The name of the previous step's rows in a statement."""
_NOISE: Final = re.compile(r"^\[[A-Z_.]+\]\s*|\s*SQLSTATE:\s*\w+;?")


class StepError(SettingsError):
    """What is wrong with a step; `number` counts from one."""

    def __init__(self, number: int, kind: str, text: str) -> None:
        super().__init__(f"step {number} ({kind}): {text}")
        self.place = ("step", number - 1, kind)


STEPS_ARE_TABLES: Final = "step: write steps as tables: [[step]]."


def is_list_of_tables(written: object) -> TypeGuard[list[Mapping[str, Any]]]:
    """Whether steps are written as they should be."""
    return isinstance(written, list) and all(isinstance(step, Mapping) for step in written)


@dataclass(frozen=True, slots=True)
class Step:
    """One step, as written."""

    kind: str
    value: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def knows_rows(self) -> bool:
        """Whether it reports which row has failed."""
        return self.kind in ("rows", "stateful")


@dataclass(frozen=True, slots=True)
class StepContext:
    """What steps need to know besides the frame."""

    beside: Path | None = None
    """Where functions are searched first."""
    failures: str | None = None
    """The queue for messages that fail; None to fail the run."""


Apply = Callable[["DataFrame", Step, StepContext], "DataFrame"]


@dataclass(frozen=True, slots=True)
class _Kind:
    apply: Apply
    takes: str
    """What the value is: text, list or table."""
    options: tuple[str, ...] = ()


def step_of(number: int, table: Mapping[str, object]) -> Step:
    """A step from what a file or a caller wrote; SettingsError says what is wrong."""
    kinds = [name for name in table if name in _KINDS]
    if len(kinds) != 1:
        raise SettingsError(_which_kind(number, table, kinds))
    kind = kinds[0]
    known = _KINDS[kind].options
    for name in table:
        if name != kind and name not in known:
            raise StepError(number, kind, f"{name}: {no_such_key(name, (kind, *known))}")
    value = table[kind]
    if not _FITS[_KINDS[kind].takes](value):
        raise StepError(number, kind, f"a {_KINDS[kind].takes} is needed, not {value!r}.")
    options = {name: table[name] for name in table if name != kind}
    step = Step(kind, value, options)
    if kind == "stateful":
        try:
            _memory(step)
        except SettingsError as error:
            raise StepError(number, kind, str(error)) from None
    return step


def _which_kind(number: int, table: Mapping[str, object], kinds: list[str]) -> str:
    if kinds:
        return f"step {number}: it has {' and '.join(kinds)}; write them as separate steps."
    if not table:
        return f"step {number}: it is empty; write one of {', '.join(_KINDS)}."
    name = next(iter(table))
    return f"step {number}: {name}: {no_such_key(name, _KINDS)}"


def apply_steps(frame: "DataFrame", steps: Iterable[Step], context: StepContext) -> "DataFrame":
    """All steps on a frame; nothing is run, but everything is resolved."""
    from pyspark.errors import PySparkException

    for number, step in enumerate(steps, 1):
        try:
            frame = _KINDS[step.kind].apply(frame, step, context)
        except StepError:
            raise
        except PySparkException as error:
            raise StepError(number, step.kind, spark_words(error)) from error
        except SettingsError as error:
            raise StepError(number, step.kind, str(error)) from error
        except Exception as error:
            # A user's function that fails on the frame itself, before there are any rows.
            text = f"{type(error).__name__}: {error}"
            raise StepError(number, step.kind, f"{step.value} failed: {text}") from error
    return frame


def spark_words(error: Exception | str) -> str:
    """Spark's error in one line, without its codes and plans."""
    text = str(error).strip()
    if text.startswith("[PARSE_SYNTAX_ERROR]"):
        reported = " ".join(text.split("== SQL ==")[0].split())
    else:
        reported = text.partition("\n")[0].strip()
    return _NOISE.sub("", _NOISE.sub("", reported)).rstrip(";. ") + "."


# --- the kinds ------------------------------------------------------------------------------


def _sql(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    frame.createOrReplaceTempView(VIEW)
    return frame.sparkSession.sql(step.value)


def _filter(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    return frame.filter(step.value)


def _select(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    return frame.selectExpr(*step.value)


def _set(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    from pyspark.sql import functions as f

    return frame.withColumns({name: f.expr(text) for name, text in step.value.items()})


def _rename(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    _require(frame, step.value)
    return frame.withColumnsRenamed(step.value)


def _drop(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    _require(frame, step.value)
    return frame.drop(*step.value)


def _json(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    """Columns from a JSON body; a body that is not JSON gives nulls."""
    from pyspark.sql import functions as f

    read = frame.withColumn("$read", f.from_json(f.col("body").cast("string"), step.value))
    return read.select(*frame.columns, "`$read`.*")


def _python(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    from pyspark.sql import DataFrame

    made = _function(step, context)(frame)
    if not isinstance(made, DataFrame):
        raise SettingsError(f"{step.value} returned a {type(made).__name__}; expected a DataFrame.")
    return made


def _rows(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    from pyspark_servicebus.pipelines.transform.row_function import (
        RowStep,
        arrow_out_schema,
        out_schema,
    )

    schema = arrow_out_schema(frame.schema)
    work = RowStep(_function(step, context), step.value, context.failures, schema)
    return frame.mapInArrow(_as_function(work), out_schema(frame.schema))


def _stateful(frame: "DataFrame", step: Step, context: StepContext) -> "DataFrame":
    from pyspark_servicebus.pipelines.transform.row_function import out_schema
    from pyspark_servicebus.pipelines.transform.state_function import StateStep

    memory = _memory(step)
    _require(frame, memory.key)
    schema = out_schema(frame.schema)
    if not frame.isStreaming:
        # Spark has no state for batch frames; the columns are the same.
        _function(step, context)
        return frame.sparkSession.createDataFrame([], schema)
    forget_ms = memory.forget_after_ms
    function = _function(step, context)
    work = StateStep(function, step.value, forget_ms, context.failures, schema.names)
    return frame.groupBy(*memory.key).transformWithState(
        statefulProcessor=work,
        outputStructType=schema,
        outputMode="Append",
        timeMode="None" if forget_ms is None else "ProcessingTime",
    )


def _as_function(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Spark inspects the function that it is given, so it gets a real one."""

    def run(batches: Any) -> Any:
        return work(batches)

    return run


def _function(step: Step, context: StepContext) -> Callable[..., Any]:
    function = load_function(step.kind, step.value, context.beside)
    arguments = step.options.get("arguments")
    return functools.partial(function, **arguments) if arguments else function


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """The settings of a stateful step besides its function."""

    key: tuple[str, ...] = setting(
        "The columns that form the key; each key has its own state.", "texts"
    )
    forget_after_ms: int | None = setting(
        "When the state of an idle key is discarded.", "duration", default=None
    )


def _memory(step: Step) -> _Memory:
    table = {name: value for name, value in step.options.items() if name != "arguments"}
    return read_table(_Memory, table)


def _require(frame: "DataFrame", names: Iterable[str]) -> None:
    for name in names:
        if name not in frame.columns:
            close = nearest(name, tuple(frame.columns))
            raise SettingsError(f"there is no column '{name}'; did you mean '{close}'?")


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())


_FITS: Final[dict[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str) and bool(value.strip()),
    "list of strings": _is_texts,
    "table of strings": _is_table,
}
_KINDS: Final[dict[str, _Kind]] = {
    "sql": _Kind(_sql, "string"),
    "filter": _Kind(_filter, "string"),
    "select": _Kind(_select, "list of strings"),
    "set": _Kind(_set, "table of strings"),
    "rename": _Kind(_rename, "table of strings"),
    "drop": _Kind(_drop, "list of strings"),
    "json": _Kind(_json, "string"),
    "python": _Kind(_python, "string", ("arguments",)),
    "rows": _Kind(_rows, "string", ("arguments",)),
    "stateful": _Kind(_stateful, "string", ("key", "forget_after", "arguments")),
}
