"""The health of a server in one sentence, from what a worker knows of the others and the stores.

Owns what counts as unhealthy, and in which order it is reported. Asked by the HTTP probes; it must
never wait for anything, so all of it is known beforehand.
"""

from collections.abc import Sequence

from partibus.server.store_loads import ServerLoads


def describe_health(
    lost_workers: Sequence[int], loads: ServerLoads, stores: int
) -> tuple[bool, str]:
    """Whether the server does its work, and why not."""
    if lost_workers:
        return False, f"Worker {_list(lost_workers)} does not answer."
    down = loads.down(stores)
    if down:
        return False, f"Store {_list(down)} is down; it is being probed."
    damaged = loads.damaged(stores)
    if damaged:
        return False, f"{damaged} stored messages failed their checksum; see the log."
    short = loads.short(stores)
    if short:
        # It serves: an orchestrator must not restart it, which would give no room.
        return True, (
            f"The disk of store {_list(short)} is almost full: sends are refused, while messages "
            "are received and settled. Free space, or receive messages."
        )
    return True, "Service is healthy."


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
