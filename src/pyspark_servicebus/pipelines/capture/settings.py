"""The settings of a capture and of a compaction, and which of them may be combined.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark_servicebus.pipelines.capture.template import (
    DEFAULT_TEMPLATE,
    OWN,
    PathTemplate,
    check_template,
    path_template,
)
from pyspark_servicebus.pipelines.run.place import BusPlace, entity_options
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    retry_time,
    setting,
    until_stopped,
)

FORMATS: Final = ("parquet", "delta")
MEBIBYTE: Final = 1024 * 1024
WINDOW_BYTES: Final = 128 * MEBIBYTE
WINDOW_TIME_MS: Final = 5 * 60 * 1000
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
RETENTION_BYTES: Final = 10 * 1024 * MEBIBYTE
FILE_BYTES: Final = 128 * MEBIBYTE
RETRY_MS: Final = 5 * 60 * 1000
_windows = partial(setting, panel="Windows")
_cursor = partial(setting, panel="The cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings(Declaration):
    """What to capture, where to, and in which windows."""

    bus: BusPlace = setting("The bus.", "bus")
    entity: str = setting(
        "A queue, or a subscription: TOPIC/Subscriptions/NAME.", "entity", is_argument=True
    )
    target: str = setting(
        "The folder, or the URI of a bucket, to write to; it holds one capture.",
        "path",
        is_argument=True,
        metavar="TARGET",
    )
    format: str = setting(
        "parquet: files in folders; delta: a Delta table, one commit per window.",
        default="parquet",
        choices=FORMATS,
    )
    template: str = setting(
        "The folder of a message, with {namespace}, {entity}, {fragment} and the time it was"
        " enqueued: {yyyy}, {MM}, {dd}, {HH}, {mm}, by windows, in UTC.",
        default=DEFAULT_TEMPLATE,
        metavar="PATH",
        default_text="all of these in this order",
    )
    window_size_bytes: int = _windows(
        "Close the window when this much data is waiting.",
        "size",
        default=WINDOW_BYTES,
        least=64 * 1024,
    )
    window_time_ms: int = _windows(
        "Close the window after this time.", "duration", default=WINDOW_TIME_MS, least=1000
    )
    empty_windows: bool = _windows(
        "Write a file without rows for a window without messages.", "switch", default=False
    )
    continuous: bool = until_stopped()
    run_time_ms: int | None = setting(
        "Stop a continuous capture after this time.", "duration", default=None
    )
    include_amqp: bool = setting(
        "Also keep the encoded message (raw_amqp), for exact replay.", "switch", default=False
    )
    starting: str | None = _cursor(
        "Where a new capture begins: with the oldest message (this is the default), or with the"
        " next.",
        default=None,
        choices=("earliest", "latest"),
    )
    cursor: str | None = _cursor(
        "The name of its cursor on the bus; by default one is generated.", default=None
    )
    retention_ms: int = _cursor(
        "How long the bus keeps messages that are not captured yet.",
        "duration",
        default=RETENTION_MS,
    )
    retention_size_bytes: int = _cursor(
        "How much uncaptured data the bus keeps for each fragment.", "size", default=RETENTION_BYTES
    )
    retry_ms: int = retry_time(RETRY_MS)
    accept_loss: bool = _cursor(
        "Continue when the bus has discarded messages before they were captured; otherwise that "
        "is an error.",
        "switch",
        default=False,
    )
    namespace: str | None = setting(
        "The value of {namespace}; by default the first part of the host name.", default=None
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

    def namespace_name(self) -> str:
        """The value of {namespace}."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSettings(Declaration):
    """Which capture, and how large its files become."""

    target: str = setting(
        "The folder, or the URI of a bucket, that holds the capture.",
        "path",
        is_argument=True,
        metavar="TARGET",
    )
    file_size_bytes: int = setting(
        "Files grow up to this size.", "size", default=FILE_BYTES, least=64 * 1024
    )
