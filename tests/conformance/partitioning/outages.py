"""Outages on demand: a server whose stores can be broken, and what to look at meanwhile.

Owns the queues of the tests of failover and the time in which a store is down. Import it only
where the group "proton" is present.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from conformance.partitioning.namespace import STORES
from conformance.partitioning.operator import Operator
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

DOWN: Final = 1  # the store that fails in every test
BUSY: Final = "com.microsoft:server-busy"

_PARTITIONED: Final = {"enable_partitioning": "true"}
_FOUR: Final = _PARTITIONED | {"partition_count": "4"}
QUEUES: Final[dict[str, dict[str, str]]] = {
    **{f"four-{number}": _FOUR for number in range(40)},
    **{f"spread-{number}": _PARTITIONED for number in range(5)},
    **{f"brief-{number}": _FOUR | {"lock_duration": '"PT1S"'} for number in range(3)},
    **{f"busy-{number}": _FOUR | {"lock_duration": '"PT2S"'} for number in range(3)},
    **{f"whole-{number}": {} for number in range(8)},
}
_numbers: Final = {kind: itertools.count() for kind in ("four", "spread", "brief", "busy")}


def fresh(kind: str) -> str:
    """A queue that no other test uses."""
    name = f"{kind}-{next(_numbers[kind])}"
    assert name in QUEUES, f"declare more queues of the kind {kind!r}"
    return name


def serve_with_faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with four stores that can be broken."""
    directory: Path = tmp_path_factory.mktemp("failover")
    config = write_queues(directory / "namespace.toml", QUEUES)
    with ServerProcess(directory, config, "--stores", str(STORES), "--faults") as process:
        yield process


@contextmanager
def outage(operator: Operator, mode: str = "down") -> Iterator[None]:
    """Within it the store is down, and the server knows."""
    operator.break_store(DOWN, mode)
    try:
        yield
    finally:
        operator.mend_store(DOWN)


def lost_and_kept(operator: Operator, queue: str) -> tuple[set[int], set[int]]:
    """The partitions in the store that fails, and the others."""
    lost = operator.partitions_in(queue, DOWN)
    every = set(range(len(operator.placement(queue))))
    assert lost
    assert every - lost
    return lost, every - lost
