"""The queues that the tests of sessions run against: many of a few kinds, each used once.

Owns the kinds and the handing out of fresh names. Each kind of session queue is there whole and
in four partitions, because a session must not show the difference.
"""

import itertools
from pathlib import Path
from typing import Final

from conformance.settlement.namespace import write_queues
from support.namespace import Kind

STORES: Final = 2

_SESSIONS: Final = {"requires_session": "true"}
_PARTED: Final = _SESSIONS | {"enable_partitioning": "true", "partition_count": "4"}
_BRIEF: Final = {"lock_duration": '"PT2S"'}

KINDS: Final = {
    "whole": Kind(count=60, properties=_SESSIONS),
    "parted": Kind(count=60, properties=_PARTED),
    # Locks that lapse soon, and few deliveries.
    "brief-whole": Kind(count=20, properties=_SESSIONS | _BRIEF),
    "brief-parted": Kind(count=20, properties=_PARTED | _BRIEF),
    # The asynchronous client's renewer cannot keep a lock of two seconds.
    "renewed-whole": Kind(count=10, properties=_SESSIONS | {"lock_duration": '"PT4S"'}),
    "renewed-parted": Kind(count=10, properties=_PARTED | {"lock_duration": '"PT4S"'}),
    "fragile": Kind(count=5, properties=_SESSIONS | {"max_delivery_count": "2"}),
    # Without sessions.
    "sessionless": Kind(count=5),
}
SHAPES: Final = ("whole", "parted")


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str) -> str:
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
