"""Where an interrupted replay continues: a file with the last number sent of each fragment.

Owns the file: which replay it belongs to, and its progress. It is written atomically after every
batch that the bus has confirmed. A file of another replay is refused, unless that has ended.
"""

import json
from dataclasses import asdict, dataclass, field

from pyspark_servicebus.pipelines.replay.settings import ReplaySettings
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.state import write_atomically

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPositions:
    """The progress of a replay."""

    replay: str
    """What is sent where; a file of another replay is not taken for this one's."""
    started_ms: int
    positions: dict[int, int] = field(default_factory=dict)
    """The last sequence number that was sent, of each fragment."""
    rows: int = 0
    is_done: bool = False


def load_positions(settings: ReplaySettings) -> ReplayPositions | None:
    """The positions of this replay, if it was interrupted."""
    file = settings.positions_file()
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        if table.pop("version") != VERSION:
            raise ValueError
        positions = {int(index): int(n) for index, n in table.pop("positions").items()}
        found = ReplayPositions(**table, positions=positions)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SettingsError(
            f"state: '{file}' does not hold the positions of a replay; name another file."
        ) from None
    if found.replay != settings.replay_name() and not found.is_done:
        raise SettingsError(
            f"state: '{file}' belongs to another replay that was interrupted; name another file, "
            "or end that one first."
        )
    return None if found.is_done or settings.restart else found


def save_positions(settings: ReplaySettings, positions: ReplayPositions) -> None:
    """Keep the positions, durably."""
    table = {"version": VERSION, **asdict(positions)}
    write_atomically(settings.positions_file(), json.dumps(table, indent=1) + "\n")
