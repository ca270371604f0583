"""What has arrived in a queue, once it is all there: published messages travel a moment."""

from collections.abc import Iterable
from typing import Any

from conformance.settlement.steps import until
from spark.bus import Bus, once_each


def arrived(bus: Bus, queue: str, count: int) -> list[Any]:
    """So many messages, and no more."""
    until(f"{count} messages in {queue}", lambda: bus.totals(queue)["active"] >= count)
    found = bus.peek(queue)
    assert len(found) == count
    return found


def bodies_arrive(bus: Bus, queue: str, expected: Iterable[str]) -> None:
    """These bodies, each once, and no others."""
    wanted = list(expected)
    once_each((str(message) for message in arrived(bus, queue, len(wanted))), wanted)
