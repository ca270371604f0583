"""The queues that the tests of transactions run against: many of a few kinds, each used once.

Owns the kinds and the handing out of fresh names.
"""

import itertools
from pathlib import Path
from typing import Final

from conformance.settlement.namespace import write_queues
from support.namespace import Kind

PARTITIONS: Final = 4

_DETECTS: Final = {"requires_duplicate_detection": "true"}
_SESSIONS: Final = {"requires_session": "true"}
_PARTITIONED: Final = {"enable_partitioning": "true", "partition_count": str(PARTITIONS)}

KINDS: Final = {
    "plain": Kind(count=60),
    "brief": Kind(count=5, properties={"lock_duration": '"PT1S"'}),
    "tiny": Kind(count=5, properties={"max_size_in_megabytes": "1"}),
    "unique": Kind(count=10, properties=_DETECTS),
    "sessions": Kind(count=10, properties=_SESSIONS),
    "parted": Kind(count=30, properties=_PARTITIONED),
    "parted-unique": Kind(count=10, properties=_PARTITIONED | _DETECTS),
    "parted-sessions": Kind(count=10, properties=_PARTITIONED | _SESSIONS),
}


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str = "plain") -> str:
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
