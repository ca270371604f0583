"""Where the real code meets the world: the replacements for threads, time, chance and files.

Owns the names that are replaced in the product's modules while a world runs, and their restoration.
Everything that is not listed here is the product unchanged.
"""

import contextlib
import secrets
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

from partibus.client import connection as client_connection
from partibus.simulation.clock import SimulatedClock
from partibus.simulation.threads import Threads
from partibus.simulation.world import World
from partibus.store import worker
from partibus.store.compaction import compactor
from partibus.store.files import log, pins, segment_writer
from partibus.store.lane import commit


@contextlib.contextmanager
def simulated(world: World, threads: Threads) -> Iterator[None]:
    """Run the product's modules in the world for a while."""
    with standing_in(_stand_ins(world, threads)):
        yield


@contextlib.contextmanager
def standing_in(stand_ins: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace names of modules for a while."""
    before = [(module, name, getattr(module, name)) for module, name, _ in stand_ins]
    for module, name, value in stand_ins:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _stand_ins(world: World, threads: Threads) -> list[tuple[Any, str, Any]]:
    chance = world.chance("secrets")
    clock = SimulatedClock(world)
    return [
        (commit, "threading", threads),
        (commit, "time", threads),
        (log, "time", threads),
        (segment_writer, "threading", threads),
        (segment_writer, "time", threads),
        (compactor, "threading", threads),
        (compactor, "time", threads),
        (pins, "threading", threads),
        (worker, "threading", threads),
        (worker, "SimpleQueue", threads.SimpleQueue),
        (client_connection, "SystemClock", lambda: clock),
        (secrets, "randbits", chance.getrandbits),
        (secrets, "token_bytes", chance.randbytes),
        (uuid, "uuid4", lambda: _uuid(chance)),
    ]


def _uuid(chance: Random) -> uuid.UUID:
    return uuid.UUID(int=chance.getrandbits(128), version=4)
