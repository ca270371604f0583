"""The settings of a transform: from where to where, what is done between, and what is promised.

Owns their names, defaults and what goes with what. They are read from a file, a command line or
a dict alike. Nothing is opened here: whether entities and columns exist is `transform_check`'s to
say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark_servicebus.pipelines.run.place import BusPlace, entity_options
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting
from pyspark_servicebus.pipelines.run.state import NAME, default_state_dir
from pyspark_servicebus.pipelines.transforming.outlets import BusOutlet, Outlet
from pyspark_servicebus.pipelines.transforming.steps import Step, step_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELIVERIES: Final = ("staged", "dedup", "atLeastOnce")
ONE_STEP: Final = ("sql", "python", "rows", "stateful")
FAILURES_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformSettings:
    """What `transform` is told."""

    bus: BusPlace = setting("The bus.", "bus")
    source: str = setting("The queue, or TOPIC/Subscriptions/NAME, that messages come from.")
    target: str = setting(
        "The queue or topic that messages go to, but those with a column target of their own.",
        default="",
    )
    sql: str | None = setting("A SELECT over the view `messages`.", default=None)
    python: str | None = setting(
        "A function from DataFrame to DataFrame: module:function, or file.py:function.",
        default=None,
    )
    rows: str | None = setting(
        "A function from a message (dict) to a message, several, or None.", default=None
    )
    stateful: str | None = setting(
        "A function (key, rows, state) -> rows that remembers; with key.", default=None
    )
    key: tuple[str, ...] = setting(
        "The columns whose values have a state of their own.", "texts", default=()
    )
    forget_after_ms: int | None = setting(
        "Forget the state of a key that is not heard of for so long.", "duration", default=None
    )
    mode: str = setting(
        "claim consumes the messages, cursor copies them.",
        default="claim",
        choices=("claim", "cursor"),
    )
    deliver: str = setting(
        "staged is exactly once; dedup needs a target that detects duplicates.",
        default="staged",
        choices=DELIVERIES,
    )
    dedup_key: tuple[str, ...] = setting(
        "With dedup: the columns that make the id of a message.", "texts", default=()
    )
    extra_columns: str = setting(
        "What columns become that messages do not have.",
        default="refuse",
        choices=("refuse", "properties"),
    )
    failure_queue: str | None = setting(
        "Where messages go that fail, with the reason. Without it the first one ends the run.",
        default=None,
    )
    failures_max: int = setting(
        "End the run when more messages of a batch fail.", "number", default=FAILURES_MAX, least=1
    )
    continuous: bool = setting(
        "Go on until stopped; else take what is there and end.", "switch", default=False
    )
    interval_ms: int = setting(
        "With continuous: the time between batches.", "duration", default=1000, least=100
    )
    max_messages: int | None = setting("Messages of a batch at most.", "number", default=None)
    watermark_ms: int | None = setting(
        "How late messages may come, by enqueued_time, for windows in SQL.",
        "duration",
        default=None,
    )
    owner: str = setting(
        "The name under which the bus knows this pipeline; the same after a restart.", default=""
    )
    checkpoint: str = setting(
        "Where Spark keeps how far it is; on a cluster, where all can write.", default=""
    )
    source_options: tuple[str, ...] = setting(
        "An option of the data source, K=V, for reading.", "texts", default=()
    )
    sink_options: tuple[str, ...] = setting(
        "An option of the data source, K=V, for writing.", "texts", default=()
    )
    steps: tuple[Step, ...] = ()
    beside: Path | None = None
    """Where functions are looked for first."""
    outlet: Outlet | None = None
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
        cls, table: Mapping[str, object], beside: Path | None = None, outlet: Outlet | None = None
    ) -> Self:
        """Settings from the keys of a table; `step` is a list of steps."""
        given = dict(table)
        written = given.pop("step", None)
        if outlet is not None:
            given["target"] = outlet.name
        settings = replace(read_table(cls, given), beside=beside, outlet=outlet)
        if written is None:
            return settings
        if not isinstance(written, list) or not all(isinstance(s, Mapping) for s in written):
            raise SettingsError("step: write steps as tables: [[step]].")
        return replace(settings, steps=steps_of(written))

    def _complaints(self) -> Any:
        if not self.target and self.outlet is None:
            yield "target: it is missing. Name the queue or topic that messages go to."
        written = [name for name in ONE_STEP if getattr(self, name)]
        if len(written) > 1:
            yield f"{', '.join(written)}: give one of them; several are written as steps."
        if written and self.steps:
            yield f"{written[0]}, step: give one of them."
        if self.stateful and not self.key:
            yield "key: stateful needs the columns whose values have a state of their own."
        if self.key and not self.stateful:
            yield "key: it is for stateful."
        if not NAME.fullmatch(self.owner):
            yield f"owner: '{self.owner}' is no name; use letters, digits, '.', '_' and '-'."
        if self.watermark_ms is not None and self.failure_queue is not None:
            yield (
                "watermark, failure_queue: windows reach over batches, and failures are told "
                "apart batch by batch; give one of them."
            )

    def in_state_dir(self, directory: Path) -> Self:
        """The same with its checkpoint in another state directory."""
        return replace(self, checkpoint=str(directory / "checkpoints" / self.owner))

    def all_steps(self) -> tuple[Step, ...]:
        """The steps, however they were written; none at all copies messages as they are."""
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
        """Whether some step does not say by itself which message failed, and it is asked for."""
        if self.failure_queue is None:
            return False
        if self.outlet is not None:
            return True  # only the bus takes rows of both sorts at once
        steps = self.all_steps()
        return len(steps) > 1 or any(not step.knows_rows for step in steps)

    def watermarked(self, frame: "DataFrame") -> "DataFrame":
        """The source with what is known of late messages."""
        if self.watermark_ms is None:
            return frame
        return frame.withWatermark("enqueued_time", f"{self.watermark_ms} milliseconds")

    def read_options(self) -> dict[str, str]:
        """The options of the source."""
        options = self.bus.options() | entity_options(self.source) | {"mode": self.mode}
        options["claimOwner" if self.mode == "claim" else "cursor"] = self.owner
        if self.max_messages is not None:
            options["maxMessagesPerTrigger"] = str(self.max_messages)
        return options | _pairs("source_options", self.source_options)

    def outlet_for(self, kind: str) -> Outlet:
        """Where rows go; `kind` is the target's: queue or topic."""
        return self.outlet or BusOutlet(self.target, self._write_options(kind))

    def failure_outlet(self) -> BusOutlet:
        """Where messages go that fail, batch by batch."""
        queue = self.failure_queue or ""
        options = self.bus.options() | {"queue": queue, "deliver": "atLeastOnce"}
        if self.deliver == "staged":
            # A writer of its own: both are published for each batch, one after the other.
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
        return options | _pairs("sink_options", self.sink_options)


def steps_of(tables: list[Any]) -> tuple[Step, ...]:
    """Steps as a file writes them."""
    return tuple(step_of(number, table) for number, table in enumerate(tables, 1))


def _owner(source: str, target: str) -> str:
    words = f"{source}-to-{target}".replace("/Subscriptions/", "-")
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in words)


def _pairs(key: str, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingsError(f"{key}: '{text}' is no K=V.")
        found[name.strip()] = value
    return found
