"""The settings of a replay, and what goes with what among them.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import read_table, setting

PACES: Final = ("full", "original")
DELIVERIES: Final = ("staged", "atLeastOnce")
SCHEDULES: Final = ("keep", "shift", "drop")
BATCH_MESSAGES: Final = 20_000
RETRY_MS: Final = 5 * 60 * 1000
ID_PREFIX: Final = "replay-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """What to send again, where to, and how fast."""

    bus: BusPlace = setting("The bus to send to.", "bus")
    source: str = setting(
        "The capture: its folder, a Delta table, the manifest of a window, or any Parquet files"
        " with the columns of messages."
    )
    entity: str = setting("The queue or topic to send to.")
    pace: str = setting(
        "full: as fast as the bus takes it; original: as it came.", default="full", choices=PACES
    )
    speed: float | None = setting(
        "The original pace, so many times as fast (0.5 is half as fast).",
        "real",
        default=None,
        least=0.001,
    )
    filter: str | None = setting(
        "Only messages for which this SQL expression over the columns is true.", default=None
    )
    since_ms: int | None = setting(
        "Only what was enqueued at or after this time.", "moment", default=None
    )
    until_ms: int | None = setting(
        "Only what was enqueued before this time.", "moment", default=None
    )
    id_prefix: str | None = setting(
        f"Put this before every message id, for example {ID_PREFIX}.", default=None
    )
    schedule: str = setting(
        "Scheduled times: keep them, shift them as far as the replay is later, or drop them.",
        default="keep",
        choices=SCHEDULES,
    )
    deliver: str = setting(
        "staged: each message once, whatever is tried again; atLeastOnce: with half the work for"
        " the bus, and messages may come twice after an interruption.",
        default="staged",
        choices=DELIVERIES,
    )
    dry_run: bool = setting(
        "Count and show the first messages; send none.", "switch", default=False
    )
    restart: bool = setting(
        "Begin anew, even if a replay was interrupted.", "switch", default=False
    )
    state: str | None = setting(
        "The file with the positions of the replay; else one in the state directory.", default=None
    )
    batch: int = setting(
        "Messages after which the positions are kept.", "number", default=BATCH_MESSAGES, least=1
    )
    retry_ms: int = setting(
        "How long a bus that is away is waited for.", "duration", default=RETRY_MS
    )

    def __post_init__(self) -> None:
        since, until = self.since_ms, self.until_ms
        if since is not None and until is not None and since >= until:
            raise SettingsError("since, until: the end lies before the beginning.")
        if self.speed is not None and self.pace == "full":
            # A speed means the original pace; nobody has to say both.
            object.__setattr__(self, "pace", "original")

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "ReplaySettings":
        """Settings from a file, from options, or from code."""
        return read_table(cls, table)

    @property
    def times_as_fast(self) -> float | None:
        """The factor of the original pace; None for full pace."""
        return (self.speed or 1.0) if self.pace == "original" else None
