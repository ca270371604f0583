"""The settings of a replay, and which of them may be combined.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

from dataclasses import dataclass, replace
from typing import Final

from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import Declaration, Typed, setting

PACES: Final = ("full", "original")
DELIVERIES: Final = ("staged", "atLeastOnce")
SCHEDULES: Final = ("keep", "shift", "drop")
BATCH_MESSAGES: Final = 20_000
RETRY_MS: Final = 5 * 60 * 1000
ID_PREFIX: Final = "replay-"
_WHICH: Final = Typed(panel="Which messages")
_CHANGES: Final = Typed(panel="What is changed")
_RESUMING: Final = Typed(panel="Resuming")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings(Declaration):
    """What to send again, where to, and how fast."""

    bus: BusPlace = setting("The bus to send to.", "bus")
    source: str = setting(
        "The capture: its folder, a Delta table, the manifest of a window, or any Parquet files"
        " with the columns of messages.",
        "path",
        typed=Typed(is_argument=True, metavar="SOURCE"),
    )
    entity: str = setting("The queue or topic to send to.", "entity", typed=Typed(is_argument=True))
    pace: str = setting(
        "full: as fast as the bus accepts messages; original: at the original pace.",
        default="full",
        choices=PACES,
    )
    speed: float | None = setting(
        "A multiple of the original pace (0.5 is half as fast).",
        "real",
        default=None,
        least=0.001,
    )
    filter: str | None = setting(
        "Only messages for which this SQL expression over the columns is true, for example"
        " \"subject = 'order'\".",
        default=None,
        typed=replace(_WHICH, metavar="SQL"),
    )
    since_ms: int | None = setting(
        "Only what was enqueued at or after this time, for example 2026-01-31T12:00:00Z.",
        "moment",
        default=None,
        typed=_WHICH,
    )
    until_ms: int | None = setting(
        "Only what was enqueued before this time.",
        "moment",
        default=None,
        typed=replace(_WHICH, flags=("--before",)),
    )
    id_prefix: str | None = setting(
        f"Put this before every message id, for example {ID_PREFIX}, so that an entity that"
        " detects duplicates accepts messages that it had before.",
        default=None,
        typed=_CHANGES,
    )
    schedule: str = setting(
        "Scheduled times: keep them, shift them by the delay of the replay, or drop them.",
        default="keep",
        choices=SCHEDULES,
        typed=_CHANGES,
    )
    deliver: str = setting(
        "staged: each message exactly once, whatever is retried; atLeastOnce: half the work for "
        "the bus, but duplicates after an interruption.",
        default="staged",
        choices=DELIVERIES,
        typed=_RESUMING,
    )
    dry_run: bool = setting(
        "Count and show the first messages; send none.", "switch", default=False
    )
    restart: bool = setting(
        "Start from the beginning, even if a replay was interrupted.",
        "switch",
        default=False,
        typed=_RESUMING,
    )
    state: str | None = setting(
        "The file for the positions of the replay; by default in the state directory.",
        "path",
        default=None,
        typed=replace(_RESUMING, metavar="FILE"),
    )
    batch: int = setting(
        "Save the positions after this many messages.",
        "number",
        default=BATCH_MESSAGES,
        least=1,
        typed=_RESUMING,
    )
    retry_ms: int = setting(
        "How long to wait for a bus that is unreachable.", "duration", default=RETRY_MS
    )

    def __post_init__(self) -> None:
        since, until = self.since_ms, self.until_ms
        if since is not None and until is not None and since >= until:
            raise SettingsError("since, until: the end is before the beginning.")
        if self.speed is not None and self.pace == "full":
            # A speed means the original pace; nobody has to say both.
            object.__setattr__(self, "pace", "original")

    @property
    def times_as_fast(self) -> float | None:
        """The factor of the original pace; None for full pace."""
        return (self.speed or 1.0) if self.pace == "original" else None
