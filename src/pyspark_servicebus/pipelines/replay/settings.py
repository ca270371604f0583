"""The settings of a replay, and which of them may be combined.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Self

from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import Declaration, retry_time, setting
from pyspark_servicebus.pipelines.run.state import default_state_dir

PACES: Final = ("full", "original")
DELIVERIES: Final = ("staged", "atLeastOnce")
SCHEDULES: Final = ("keep", "shift", "drop")
BATCH_MESSAGES: Final = 20_000
RETRY_MS: Final = 5 * 60 * 1000
ID_PREFIX: Final = "replay-"
_which = partial(setting, panel="Which messages")
_changes = partial(setting, panel="What is changed")
_resuming = partial(setting, panel="Resuming")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings(Declaration):
    """What to send again, where to, and how fast."""

    bus: BusPlace = setting("The bus to send to.", "bus")
    source: str = setting(
        "The capture: its folder, a Delta table, the manifest of a window, or any Parquet files"
        " with the columns of messages.",
        "path",
        is_argument=True,
        metavar="SOURCE",
    )
    entity: str = setting("The queue or topic to send to.", "entity", is_argument=True)
    pace: str = setting(
        "full: as fast as the bus accepts messages; original: at the original pace.",
        default="full",
        choices=PACES,
    )
    speed: float | None = setting(
        "A multiple of the original pace (0.5 is half as fast).", "real", default=None, least=0.001
    )
    filter: str | None = _which(
        "Only messages for which this SQL expression over the columns is true, for example"
        " \"subject = 'order'\".",
        default=None,
        metavar="SQL",
    )
    since_ms: int | None = _which(
        "Only what was enqueued at or after this time, for example 2026-01-31T12:00:00Z.",
        "moment",
        default=None,
    )
    until_ms: int | None = _which(
        "Only what was enqueued before this time.", "moment", default=None, flags=("--before",)
    )
    id_prefix: str | None = _changes(
        f"Put this before every message id, for example {ID_PREFIX}, so that an entity that"
        " detects duplicates accepts messages that it had before.",
        default=None,
    )
    schedule: str = _changes(
        "Scheduled times: keep them, shift them by the delay of the replay, or drop them.",
        default="keep",
        choices=SCHEDULES,
    )
    deliver: str = _resuming(
        "staged: each message exactly once, whatever is retried; atLeastOnce: half the work for "
        "the bus, but duplicates after an interruption.",
        default="staged",
        choices=DELIVERIES,
    )
    dry_run: bool = setting(
        "Count and show the first messages; send none.", "switch", default=False
    )
    restart: bool = _resuming(
        "Start from the beginning, even if a replay was interrupted.", "switch", default=False
    )
    state: str | None = _resuming(
        "The file for the positions of the replay; by default in the state directory.",
        "path",
        default=None,
        metavar="FILE",
    )
    batch: int = _resuming(
        "Save the positions after this many messages.", "number", default=BATCH_MESSAGES, least=1
    )
    retry_ms: int = retry_time(RETRY_MS)

    def __post_init__(self) -> None:
        since, until = self.since_ms, self.until_ms
        if since is not None and until is not None and since >= until:
            raise SettingsError("since, until: the end is before the beginning.")
        if self.speed is not None and self.pace == "full":
            # A speed means the original pace; nobody has to say both.
            object.__setattr__(self, "pace", "original")

    def in_state_dir(self, directory: Path) -> Self:
        """The same with its positions in another state directory, unless a file is named."""
        return replace(self, state=str(self.positions_file(directory)))

    def replay_name(self) -> str:
        """The same name for the same messages and the same destination."""
        words = (
            self.source,
            self.bus.connection().host,
            self.entity,
            self.filter,
            self.since_ms,
            self.until_ms,
            self.id_prefix,
        )
        return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]

    def positions_file(self, directory: Path | None = None) -> Path:
        """Where the positions of the replay are kept: by default in the state directory."""
        if self.state is not None:
            return Path(self.state).expanduser()
        return (directory or default_state_dir()) / "replays" / f"{self.replay_name()}.json"

    @property
    def times_as_fast(self) -> float | None:
        """The factor of the original pace; None for full pace."""
        return (self.speed or 1.0) if self.pace == "original" else None
