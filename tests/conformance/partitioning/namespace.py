"""The queues that the tests of partitioning run against: many of a few kinds, each used once.

Owns the kinds and the handing out of fresh names. Most tests want few partitions, because
they look at each; "spread" has the service's own number.
"""

import itertools
from pathlib import Path
from typing import Final

from conformance.settlement.namespace import write_queues
from support.namespace import Kind

STORES: Final = 4

_PARTITIONED: Final = {"enable_partitioning": "true"}
_FOUR: Final = _PARTITIONED | {"partition_count": "4"}

KINDS: Final = {
    "spread": Kind(count=60, properties=_PARTITIONED),
    "four": Kind(count=80, properties=_FOUR),
    "seven": Kind(count=4, properties=_PARTITIONED | {"partition_count": "7"}),
    # Locks that lapse soon, and few deliveries.
    "brief": Kind(count=10, properties=_FOUR | {"lock_duration": '"PT1S"'}),
    "renewed": Kind(count=10, properties=_FOUR | {"lock_duration": '"PT2S"'}),
    "fragile": Kind(
        count=10, properties=_FOUR | {"lock_duration": '"PT1S"', "max_delivery_count": "2"}
    ),
    "tiny": Kind(count=10, properties=_FOUR | {"max_size_in_megabytes": "1"}),
    # Not partitioned.
    "whole": Kind(count=30),
    "whole-tiny": Kind(count=4, properties={"max_size_in_megabytes": "1"}),
}
PARTITIONS: Final = {"spread": 16, "four": 4, "seven": 7, "whole": 1}


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str = "four") -> str:
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
