"""The settings of `pipeline analytics`: their names, defaults, and what goes together.

Owns the judgement. Every complaint names the setting and says what to write; all come at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_servicebus.pipelines.run.place import PLACE_KEYS, BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting
from pyspark_servicebus.pipelines.traffic.frames import KEYS, Measured

NAME: Final = "analytics"
WINDOW_MS: Final = 60_000
WATERMARK_MS: Final = 120_000
TRIGGER_MS: Final = 10_000
FACTS: Final = "facts"
MODES: Final = ("snapshot", "stream")
NO_BUS: Final = BusPlace(connection_string_ref="env:")
"""What a look at captured messages is given: it asks no bus."""
_FOR_STREAMS: Final = ("cursor", "watermark", "trigger", "continuous", "run_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyticsSettings:
    """What is looked at, how it is counted, and where the report goes."""

    bus: BusPlace = setting("The bus.", "bus")
    entities: tuple[str, ...] = setting(
        "Which queues and subscriptions, as globs: orders*, events/Subscriptions/*. All without.",
        "texts",
        default=(),
    )
    output: str = setting("A directory for the report: HTML, PNG, Parquet, JSON and text.")
    captured: str | None = setting(
        "Look at messages that were captured as Parquet in this folder, instead of a bus.",
        default=None,
    )
    mode: str = setting(
        "snapshot: what waits now. stream: what passes, window by window.",
        default="snapshot",
        choices=MODES,
    )
    key: str = setting(
        "What the key of a message is; auto is its session, or else its partition key.",
        default="auto",
        choices=KEYS,
    )
    sizes: bool = setting("Read bodies for their size.", "switch", default=True)
    top: int = setting("So many of the hottest keys.", "number", default=20, least=1)
    window_ms: int = setting("Count in windows of this length.", "duration", default=WINDOW_MS)
    cursor: str = setting("The name of the stream's cursor on the bus.", default=NAME)
    watermark_ms: int = setting(
        "How long a window waits for late messages before it is written.",
        "duration",
        default=WATERMARK_MS,
    )
    trigger_ms: int = setting("How often a stream looks.", "duration", default=TRIGGER_MS)
    continuous: bool = setting(
        "Go on until stopped; else a stream takes what is there and ends.", "switch", default=False
    )
    run_time_ms: int | None = setting(
        "End a continuous stream after so long.", "duration", default=None
    )

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "AnalyticsSettings":
        """Settings by name; SettingsError says what is wrong."""
        if "captured" in table and not {"bus", *PLACE_KEYS} & set(table):
            table = {**table, "bus": NO_BUS}
        made = read_table(cls, table)
        made._judge(table)
        return made

    def _judge(self, given: Mapping[str, object]) -> None:
        """Complain about what does not go together."""
        complaints = []
        is_stream = self.mode == "stream"
        if self.captured is not None and (is_stream or self.entities):
            complaints.append("captured: it goes with neither mode=stream nor entities.")
        complaints += [
            f"{key}: it means nothing without mode=stream."
            for key in _FOR_STREAMS
            if not is_stream and given.get(key) not in (None, False)
        ]
        if self.run_time_ms is not None and not self.continuous:
            complaints.append("run_time: it means nothing without continuous.")
        if self.window_ms < 1000:
            complaints.append("window: it is shorter than a second; write 1s or more.")
        if complaints:
            raise SettingsError.of(complaints)

    @property
    def facts_path(self) -> str:
        """Where a stream writes its windows."""
        return f"{self.output}/{FACTS}"

    def measured(self) -> Measured:
        return Measured(self.key, self.sizes)
