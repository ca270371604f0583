"""Memory that is freed in small steps.

Owns one thing: a client that leaves may have held hundreds of megabytes in unfinished messages, and
returning the pages of 64 MB to the system takes about 30 milliseconds, in which no other client
would be served. Called by the connection at its end.
"""

from functools import partial
from typing import Final

from partibus.domain.scheduler import Scheduler

FREED_PER_TURN_BYTES: Final = 2 * 1024 * 1024
"""About a millisecond."""


def free_in_turns(scheduler: Scheduler, pieces: list[bytes | memoryview]) -> None:
    """Free some pieces now, and the rest in later turns of the loop."""
    freed = 0
    while pieces and freed < FREED_PER_TURN_BYTES:
        freed += len(pieces.pop())
    if pieces:
        scheduler.call_soon(partial(free_in_turns, scheduler, pieces))
