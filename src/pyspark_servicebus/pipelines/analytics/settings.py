"""The settings of `pipeline analytics`: their names and defaults, and which may be combined.

Owns the checks. Every error names the setting and says what to write; all are reported at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from pyspark_servicebus.pipelines.run.place import PLACE_KEYS, BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    entity_globs,
    read_table,
    setting,
    until_stopped,
)

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.analytics.frames import Measured

NAME: Final = "analytics"
WINDOW_MS: Final = 60_000
WATERMARK_MS: Final = 120_000
TRIGGER_MS: Final = 10_000
FACTS: Final = "facts"
MODES: Final = ("snapshot", "stream")
NO_BUS: Final = BusPlace(connection_string_ref="env:")
"""For an analysis of captured messages, which needs no bus."""
KEYS: Final = ("auto", "session_id", "partition_key", "subject", "message_id")
_counting = partial(setting, panel="Counting")
_stream = partial(setting, panel="Streams")
_FOR_STREAMS: Final = ("cursor", "watermark", "trigger", "continuous", "run_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsSettings(Declaration):
    """What is examined, how it is counted, and where the report goes."""

    bus: BusPlace = setting("The bus.", "bus")
    entities: tuple[str, ...] = entity_globs()
    output: str = setting(
        "A directory for the report: HTML, PNG, Parquet, JSON and text.",
        "path",
        flags=("--output", "-o"),
        metavar="DIR",
    )
    captured: str | None = setting(
        "Analyze the messages captured as Parquet in this folder, instead of a bus.",
        "path",
        default=None,
    )
    mode: str = setting(
        "snapshot: what waits now. stream: the traffic, window by window.",
        default="snapshot",
        choices=MODES,
    )
    key: str = _counting(
        "What the key of a message is; auto is its session, or else its partition key.",
        default="auto",
        choices=KEYS,
    )
    sizes: bool = _counting(
        "Bodies are read for their size, unless this is turned off.", "switch", default=True
    )
    top: int = _counting("How many of the hottest keys to list.", "number", default=20, least=1)
    window_ms: int = _counting("Count in windows of this length.", "duration", default=WINDOW_MS)
    cursor: str = _stream("The name of the stream's cursor on the bus.", default=NAME)
    watermark_ms: int = _stream(
        "How long a window waits for late messages before it is written.",
        "duration",
        default=WATERMARK_MS,
    )
    trigger_ms: int = _stream(
        "How often a stream polls.", "duration", default=TRIGGER_MS, flags=("--interval",)
    )
    continuous: bool = until_stopped(panel="Streams")
    run_time_ms: int | None = _stream(
        "Stop a continuous stream after this time.", "duration", default=None
    )

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Self:
        """Settings from a table, checked together with what was given."""
        if "captured" in table and not {"bus", *PLACE_KEYS} & set(table):
            table = {**table, "bus": NO_BUS}
        made = read_table(cls, table)
        made._check(table)
        return made

    def _check(self, given: Mapping[str, object]) -> None:
        """Refuse what cannot be combined."""
        complaints = []
        is_stream = self.mode == "stream"
        if self.captured is not None and (is_stream or self.entities):
            complaints.append("captured: it cannot be combined with mode=stream or entities.")
        complaints += [
            f"{key}: it requires mode=stream."
            for key in _FOR_STREAMS
            if not is_stream and given.get(key) not in (None, False)
        ]
        if self.run_time_ms is not None and not self.continuous:
            complaints.append("run_time: it requires continuous.")
        if self.window_ms < 1000:
            complaints.append("window: it is shorter than a second; write 1s or more.")
        if complaints:
            raise SettingsError.of(complaints)

    @property
    def facts_path(self) -> str:
        """Where a stream writes its windows."""
        return f"{self.output}/{FACTS}"

    def measured(self) -> "Measured":
        """What is measured of each message."""
        from pyspark_servicebus.pipelines.analytics.frames import Measured

        return Measured(self.key, self.sizes)
