"""How much to read, and by how many tasks.

Owns the arithmetic: a limit divided over fragments so that none starves, and slices of fragments
grouped into tasks of similar size. Pure: numbers in, numbers out.
"""

from dataclasses import dataclass, replace
from typing import Final

TASK_BYTES: Final = 32 * 1024 * 1024
"""The intended size of a task; starting one costs as much as about ten thousand messages."""
TASK_MESSAGES: Final = 32_768
FLOOR: Final = 16
"""Messages that every fragment with something to read gets, so that small ones do not starve."""
BYTE_FLOOR: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of one fragment, from `first` up to, but not including, `last`."""

    fragment: int
    first: int
    last: int
    count: int
    """Messages in it; -1 when only the bus knows."""
    byte_count: int
    entity: str = ""
    """The entity of the fragment, in a read of several entities."""


def share_out(limit: int, available: dict[int, int]) -> dict[int, int]:
    """Divide a limit over fragments, in proportion to what each has, with a minimum for each."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    floor = min(FLOOR, limit // max(1, sum(count > 0 for count in available.values())))
    shares = {index: min(count, floor) for index, count in available.items()}
    rest = limit - sum(shares.values())
    left = {index: available[index] - shares[index] for index in available}
    wanted = sum(left.values())
    for index, count in left.items():
        shares[index] += rest * count // wanted if wanted else 0
    missing = limit - sum(shares.values())
    for index in sorted(
        available, key=lambda index: available[index] - shares[index], reverse=True
    ):
        more = min(missing, available[index] - shares[index])
        shares[index] += more
        missing -= more
    return shares


def split(slices: list[Slice], parts_min: int) -> list[Slice]:
    """Halve the largest slices until there are enough, or none can be divided."""
    out = list(slices)
    while len(out) < parts_min:
        largest = max(out, key=lambda part: part.last - part.first, default=None)
        if largest is None or largest.last - largest.first < 2:
            break
        out.remove(largest)
        middle = (largest.first + largest.last) // 2
        half = largest.byte_count // 2
        out.append(replace(largest, last=middle, count=-1, byte_count=half))
        out.append(replace(largest, first=middle, count=-1, byte_count=half))
    return sorted(out, key=_place)


def _place(part: Slice) -> tuple[str, int, int]:
    return part.entity, part.fragment, part.first


def share_bytes(limit: int, weights: dict[int, int]) -> dict[int, int]:
    """Divide a limit in bytes over fragments, by weight, with enough for a few messages each."""
    total = sum(weights.values())
    floor = min(BYTE_FLOOR, limit // max(1, len(weights)))
    return {
        index: max(1, floor, limit * weight // max(1, total)) for index, weight in weights.items()
    }


def group(slices: list[Slice], tasks_min: int) -> list[list[Slice]]:
    """Slices grouped into tasks; the order within a fragment is kept in each task."""
    if not slices:
        return []
    total = sum(part.byte_count for part in slices)
    count = sum(max(0, part.count) for part in slices)
    wanted = max(
        tasks_min, min(max(-(-total // TASK_BYTES), -(-count // TASK_MESSAGES)), len(slices)), 1
    )
    if wanted >= len(slices):
        return [[part] for part in slices]
    tasks: list[list[Slice]] = [[] for _ in range(wanted)]
    loads = [0] * wanted
    for part in sorted(slices, key=lambda part: part.byte_count, reverse=True):
        lightest = loads.index(min(loads))
        tasks[lightest].append(part)
        loads[lightest] += part.byte_count + 1
    return [sorted(task, key=_place) for task in tasks]
