"""The settings of a transform: source, target, the steps between them, and the guarantees.

Owns their names and defaults, and which of them may be combined. They are read in the same way from
a file, a command line or a dict. Nothing is opened here: `check` finds out whether entities and
columns exist.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark_servicebus.pipelines.run.place import BusPlace, entity_options
from pyspark_servicebus.pipelines.run.sections import Sections
from pyspark_servicebus.pipelines.run.settings import SettingsError, pairs
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    read_table,
    setting,
    until_stopped,
)
from pyspark_servicebus.pipelines.run.state import NAME, default_state_dir
from pyspark_servicebus.pipelines.transform.steps import (
    STEPS_ARE_TABLES,
    Step,
    is_list_of_tables,
    step_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_servicebus.pipelines.transform.outlets import BusOutlet, Outlet

DELIVERIES: Final = ("staged", "dedup", "atLeastOnce")
ONE_STEP: Final = ("sql", "python", "rows", "stateful")
FAILURES_MAX: Final = 100
SINKS: Final = ("queue", "topic", "parquet", "delta", "console")
SOURCE_SETTINGS: Final = ("mode", "max_messages", "watermark")
"""Those that a declared file has in [source]."""
SINK_SETTINGS: Final = ("deliver", "dedup_key", "extra_columns", "failure_queue", "failures_max")
"""Those that a declared file has in [sink]."""
_work = partial(setting, panel="Transformation")
_function = partial(_work, metavar="MODULE:FUNCTION")
_reading = partial(setting, panel="Reading")
_guarantee = partial(setting, panel="Guarantees")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSettings(Declaration):
    """What is transformed, how, and where the result goes."""

    SECTIONS = ("source", "step", "sink")
    PLACES = {  # noqa: RUF012 - a mapping, which nobody changes
        "source": (("source", "queue"), ("source", "subscription"), ("source",)),
        "source_options": (("source",),),
        "target": (*(("sink", name) for name in SINKS), ("sink",)),
        "sink_options": (("sink",),),
        **{name: (("source", name),) for name in SOURCE_SETTINGS},
        **{name: (("sink", name),) for name in SINK_SETTINGS},
    }

    bus: BusPlace = setting("The bus.", "bus")
    source: str = setting(
        "The queue, or TOPIC/Subscriptions/NAME, that messages come from.",
        "entity",
        is_argument=True,
        metavar="SOURCE",
    )
    target: str = setting(
        "The queue or topic that messages go to, unless a row has its own `target` column.",
        "entity",
        default="",
        is_argument=True,
        metavar="TARGET",
    )
    sql: str | None = _work(
        "A SELECT over the view `messages`; on a command line, @FILE reads it from a file.",
        default=None,
        metavar="SELECT",
    )
    python: str | None = _function(
        "A function from DataFrame to DataFrame: module:function, or file.py:function.",
        default=None,
    )
    rows: str | None = _function(
        "A function from a message (dict) to a message, several, or None.", default=None
    )
    stateful: str | None = _function(
        "A stateful function (key, rows, state) -> rows; it requires key.", default=None
    )
    key: tuple[str, ...] = _work(
        "With stateful: the columns that form the key; each key has its own state.",
        "texts",
        default=(),
        metavar="COLUMN",
    )
    forget_after_ms: int | None = _work(
        "With stateful: discard the state of keys idle for this long.", "duration", default=None
    )
    mode: str = _reading(
        "claim consumes the messages, cursor copies them.",
        default="claim",
        choices=("claim", "cursor"),
    )
    deliver: str = _guarantee(
        "staged is exactly once; dedup needs a target that detects duplicates.",
        default="staged",
        choices=DELIVERIES,
    )
    dedup_key: tuple[str, ...] = _guarantee(
        "With dedup: the columns that make the id of a message.",
        "texts",
        default=(),
        metavar="COLUMN",
    )
    extra_columns: str = _work(
        "What to do with columns that messages do not have.",
        default="refuse",
        choices=("refuse", "properties"),
    )
    failure_queue: str | None = _guarantee(
        "Where failing messages go, with the reason. Without it the first failure ends the run.",
        default=None,
        metavar="QUEUE",
    )
    failures_max: int = _guarantee(
        "End the run when more messages than this fail in one batch.",
        "number",
        default=FAILURES_MAX,
        least=1,
    )
    continuous: bool = until_stopped(panel="Reading")
    interval_ms: int = _reading(
        "With continuous: the time between batches.", "duration", default=1000, least=100
    )
    max_messages: int | None = _reading("The most messages in one batch.", "number", default=None)
    watermark_ms: int | None = _reading(
        "How late messages may come, by enqueued_time, for windows in SQL.",
        "duration",
        default=None,
    )
    owner: str = _reading(
        "The name of this pipeline on the bus; keep it the same across restarts. By default"
        " SOURCE-to-TARGET.",
        default="",
        metavar="NAME",
    )
    checkpoint: str = _reading(
        "Where Spark keeps its checkpoint; on a cluster, a place that every node can write to. By"
        " default in the state directory.",
        "path",
        default="",
        metavar="DIR",
    )
    source_options: tuple[str, ...] = _reading(
        "An option of the data source for reading; repeat for each.",
        "texts",
        default=(),
        flags=("--source-option",),
        metavar="K=V",
    )
    sink_options: tuple[str, ...] = _guarantee(
        "An option of the data source for writing; repeat for each.",
        "texts",
        default=(),
        flags=("--sink-option",),
        metavar="K=V",
    )
    steps: tuple[Step, ...] = ()
    beside: Path | None = None
    """Where functions are looked for first."""
    outlet: "Outlet | None" = None
    """Where rows go instead of an entity of the bus."""

    def __post_init__(self) -> None:
        if not self.owner:
            target = self.target or (self.outlet.name if self.outlet else "")
            object.__setattr__(self, "owner", _owner(self.source, target))
        if not self.checkpoint:
            place = default_state_dir() / "checkpoints" / self.owner
            object.__setattr__(self, "checkpoint", str(place))
        complaints = list(self._complaints())
        if complaints:
            raise SettingsError.of(complaints)

    @classmethod
    def from_table(
        cls, table: Mapping[str, object], beside: Path | None = None, outlet: "Outlet | None" = None
    ) -> Self:
        """Settings from the keys of a table; `step` is a list of steps."""
        given = dict(table)
        written = given.pop("step", None)
        if outlet is not None:
            given["target"] = outlet.name
        settings = replace(read_table(cls, given), beside=beside, outlet=outlet)
        if written is None:
            return settings
        if not is_list_of_tables(written):
            raise SettingsError(STEPS_ARE_TABLES)
        return replace(settings, steps=steps_of(written))

    @classmethod
    def from_file(cls, table: dict[str, Any], file: Sections) -> Self:
        """Settings from the section of their kind, or from [source], [[step]] and [sink]."""
        from pyspark_servicebus.pipelines.transform.sections import SectionReader

        reader = SectionReader(file)
        given, steps = reader.table(table), reader.steps()
        settings = cls.from_table(given, file.folder.absolute(), reader.outlet)
        return replace(settings, steps=steps) if steps else settings

    def _complaints(self) -> Iterator[str]:
        if not self.target and self.outlet is None:
            yield "target: it is missing. Name the queue or topic that messages go to."
        written = [name for name in ONE_STEP if getattr(self, name)]
        if len(written) > 1:
            yield f"{', '.join(written)}: give one of them; several are written as steps."
        if written and self.steps:
            yield f"{written[0]}, step: give one of them."
        if self.stateful and not self.key:
            yield "key: stateful needs the columns that form the key."
        if self.key and not self.stateful:
            yield "key: it is for stateful."
        if not NAME.fullmatch(self.owner):
            yield (
                f"owner: '{self.owner}' is not a valid name; use letters, digits, '.', '_' and '-'."
            )
        if self.watermark_ms is not None and self.failure_queue is not None:
            yield (
                "watermark, failure_queue: windows span batches, but failures are identified "
                "batch by batch; give only one of them."
            )

    def in_state_dir(self, directory: Path) -> Self:
        """The same with its checkpoint in another state directory."""
        return replace(self, checkpoint=str(directory / "checkpoints" / self.owner))

    def all_steps(self) -> tuple[Step, ...]:
        """The steps, however they were written; none means that messages are copied unchanged."""
        if self.stateful:
            options: dict[str, Any] = {"key": list(self.key)}
            if self.forget_after_ms is not None:
                options["forget_after"] = f"{self.forget_after_ms}ms"
            return (Step("stateful", self.stateful, options),)
        for kind in ("sql", "python", "rows"):
            if value := getattr(self, kind):
                return (Step(kind, value),)
        return self.steps

    @property
    def searches(self) -> bool:
        """Whether failing messages must be searched for: some step does not report them."""
        if self.failure_queue is None:
            return False
        if self.outlet is not None:
            return True  # only the bus accepts both kinds of rows at once
        steps = self.all_steps()
        return len(steps) > 1 or any(not step.knows_rows for step in steps)

    def watermarked(self, frame: "DataFrame") -> "DataFrame":
        """The source with a watermark for late messages."""
        if self.watermark_ms is None:
            return frame
        return frame.withWatermark("enqueued_time", f"{self.watermark_ms} milliseconds")

    def read_options(self) -> dict[str, str]:
        """The options of the source."""
        options = self.bus.options() | entity_options(self.source) | {"mode": self.mode}
        options["claimOwner" if self.mode == "claim" else "cursor"] = self.owner
        if self.max_messages is not None:
            options["maxMessagesPerTrigger"] = str(self.max_messages)
        return options | pairs(self.source_options, "source_options")

    def outlet_for(self, kind: str) -> "Outlet":
        """Where rows go; `kind` is the target's: queue or topic."""
        from pyspark_servicebus.pipelines.transform.outlets import BusOutlet

        return self.outlet or BusOutlet(self.target, self._write_options(kind))

    def failure_outlet(self) -> "BusOutlet":
        """Where failing messages go, batch by batch."""
        from pyspark_servicebus.pipelines.transform.outlets import BusOutlet

        queue = self.failure_queue or ""
        options = self.bus.options() | {"queue": queue, "deliver": "atLeastOnce"}
        if self.deliver == "staged":
            # A separate writer: both are published for each batch, one after the other.
            options |= {"deliver": "staged", "writer": f"{self.owner}.failed"}
        return BusOutlet(queue, options)

    def _write_options(self, kind: str) -> dict[str, str]:
        options = self.bus.options() | {kind: self.target, "deliver": self.deliver}
        options["extraColumns"] = self.extra_columns
        if self.deliver == "staged":
            options["writer"] = self.owner
        if self.dedup_key and self.deliver == "dedup":
            options["dedupKey"] = ",".join(self.dedup_key)
        if self.failure_queue is not None:
            options["badRowQueue"] = self.failure_queue
        return options | pairs(self.sink_options, "sink_options")


def steps_of(tables: list[Any]) -> tuple[Step, ...]:
    """Steps as written in a file."""
    return tuple(step_of(number, table) for number, table in enumerate(tables, 1))


def _owner(source: str, target: str) -> str:
    words = f"{source}-to-{target}".replace("/Subscriptions/", "-")
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in words)
