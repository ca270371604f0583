"""The queues that the tests of duplicate detection run against: many of a few kinds, each once.

Owns the kinds and the handing out of fresh names. A window of two seconds is there for the
tests that see one end; all others have the service's own ten minutes.
"""

import itertools
from pathlib import Path
from typing import Final

from conformance.settlement.namespace import write_queues
from support.namespace import Kind

BRIEF_WINDOW_SECONDS: Final = 2
PARTITIONS: Final = 4

_DETECTS: Final = {"requires_duplicate_detection": "true"}
_PARTITIONED: Final = {"enable_partitioning": "true", "partition_count": str(PARTITIONS)}
_BRIEF: Final = {"duplicate_detection_history_time_window": f'"PT{BRIEF_WINDOW_SECONDS}S"'}

KINDS: Final = {
    "unique": Kind(count=40, properties=_DETECTS),
    "brief": Kind(count=10, properties=_DETECTS | _BRIEF),
    "parted": Kind(count=20, properties=_DETECTS | _PARTITIONED),
    # Duplicates are not detected.
    "plain": Kind(count=10),
    "parted-plain": Kind(count=10, properties=_PARTITIONED),
}


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str = "unique") -> str:
        number = next(self._next[kind])
        assert number < KINDS[kind].count, f"declare more queues of the kind {kind!r}"
        return f"{kind}-{number}"


def write_kinds(path: Path) -> Path:
    """Write the TOML file that declares every queue of every kind."""
    return write_queues(
        path,
        {
            f"{name}-{number}": kind.properties
            for name, kind in KINDS.items()
            for number in range(kind.count)
        },
    )
