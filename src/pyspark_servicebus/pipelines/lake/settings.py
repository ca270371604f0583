"""The settings of a capture, and what goes with what among them.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_servicebus.pipelines.lake.folder import OWN
from pyspark_servicebus.pipelines.lake.template import (
    DEFAULT_TEMPLATE,
    PathTemplate,
    check_template,
    path_template,
)
from pyspark_servicebus.pipelines.run.place import BusPlace, entity_options
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting

FORMATS: Final = ("parquet", "delta")
MEBIBYTE: Final = 1024 * 1024
WINDOW_BYTES: Final = 128 * MEBIBYTE
WINDOW_TIME_MS: Final = 5 * 60 * 1000
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
RETENTION_BYTES: Final = 10 * 1024 * MEBIBYTE
RETRY_MS: Final = 5 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """What to capture, where to, and in which windows."""

    bus: BusPlace = setting("The bus.", "bus")
    entity: str = setting("A queue, or a subscription: TOPIC/Subscriptions/NAME.")
    target: str = setting("The folder or bucket to write to; it holds one capture.")
    format: str = setting(
        "parquet: files in folders; delta: a Delta table, one commit a window.",
        default="parquet",
        choices=FORMATS,
    )
    template: str = setting(
        "The folder of a message, with {namespace}, {entity}, {fragment} and the time it was"
        " enqueued: {yyyy}, {MM}, {dd}, {HH}, {mm}, by windows, in UTC.",
        default=DEFAULT_TEMPLATE,
    )
    window_size_bytes: int = setting(
        "Close a window when so much waits.", "size", default=WINDOW_BYTES, least=64 * 1024
    )
    window_time_ms: int = setting(
        "Close a window after so long.", "duration", default=WINDOW_TIME_MS, least=1000
    )
    continuous: bool = setting(
        "Go on until stopped; else take what is there and end.", "switch", default=False
    )
    run_time_ms: int | None = setting(
        "End a continuous capture after so long.", "duration", default=None
    )
    empty_windows: bool = setting(
        "Write a file without rows for a window in which nothing came.", "switch", default=False
    )
    include_amqp: bool = setting(
        "Keep each message byte by byte too (raw_amqp), for exact replay.", "switch", default=False
    )
    starting: str | None = setting(
        "Where a new capture begins: with the oldest message, or with the next.",
        default=None,
        choices=("earliest", "latest"),
    )
    cursor: str | None = setting(
        "The name of the cursor that the bus keeps for it; else one of its own.", default=None
    )
    retention_ms: int = setting(
        "How long the bus keeps what is not captured yet.", "duration", default=RETENTION_MS
    )
    retention_size_bytes: int = setting(
        "How much of it the bus keeps for each fragment.", "size", default=RETENTION_BYTES
    )
    retry_ms: int = setting(
        "How long a bus that is away is waited for.", "duration", default=RETRY_MS
    )
    accept_loss: bool = setting(
        "Go on when the bus has let messages go that were not captured yet; else that is an error.",
        "switch",
        default=False,
    )
    namespace: str | None = setting(
        "What stands for {namespace}; else the first part of the host's name.", default=None
    )

    def __post_init__(self) -> None:
        check_template(self.template)
        complaints = []
        if self.run_time_ms is not None and not self.continuous:
            complaints.append("run_time: it is for a continuous capture; add continuous.")
        if self.entity.lower().rstrip("/").endswith("$deadletterqueue"):
            complaints.append(
                "entity: dead letters have no cursor; capture the queue, or read them with"
                " `partibus pipeline deadletters`."
            )
        if "/" in self.target and self.target.rstrip("/").endswith(f"/{OWN}"):
            complaints.append(f"target: name the folder that holds {OWN}, not {OWN} itself.")
        if complaints:
            raise SettingsError.of(complaints)

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "CaptureSettings":
        """Settings from a file, from options, or from code."""
        return read_table(cls, table)

    def namespace_name(self) -> str:
        """What stands for {namespace}."""
        return self.namespace or self.bus.namespace()

    def path_template(self) -> PathTemplate:
        """The template with the names filled in."""
        return path_template(self.template, self.namespace_name(), self.entity, self.window_time_ms)

    def source_options(self, cursor: str) -> dict[str, str]:
        """The options of the data source."""
        return {
            **self.bus.options(),
            **entity_options(self.entity),
            "mode": "cursor",
            "cursor": cursor,
            "maxBytesPerTrigger": str(self.window_size_bytes),
            "includeAmqp": str(self.include_amqp).lower(),
            "retention": f"{self.retention_ms}ms",
            "retentionBytes": str(self.retention_size_bytes),
            "retryDuration": f"{self.retry_ms}ms",
            "failOnDataLoss": str(not self.accept_loss).lower(),
        }
