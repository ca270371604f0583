"""What a process has used, read from /proc: the server only, never its clients.

Owns the reading of counters and nothing else. CPU seconds are the number to trust on a
machine that others use too; rates are not. Called by the scenarios, around each load.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, the ended ones too."""
    # The name, in brackets, may hold spaces; the fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def thread_cpu_seconds(pid: int, *names: str) -> float:
    """The time of the threads that run now and whose names begin so."""
    ticks = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end between two looks
            head, _, tail = (thread / "stat").read_text(encoding="utf-8").rpartition(")")
            if head.partition("(")[2].startswith(names):
                fields = tail.split()
                ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def tree_cpu_seconds(pid: int) -> float:
    """The time of a process and of all that it has started, those that have ended too."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        below = [tree_cpu_seconds(child) for child in descendants(pid)]
    except OSError:  # it ended between two looks; its parent has counted it
        return 0.0
    return sum(below) + sum(int(field) for field in fields[11:15]) / _TICKS_PER_S


def descendants(pid: int) -> list[int]:
    """The processes that any thread of a process has started and that still run."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end between two looks
            words = (thread / "children").read_text(encoding="ascii").split()
            found += [int(word) for word in words]
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(word) for word in words]


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * _KIB
    raise RuntimeError(f"process {pid} has ended")


def machine_cpu_seconds() -> float:
    """Everything that ran on this machine since it was started."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    # user, nice, system, then idle and iowait, which are not work, then irq and softirq.
    return sum(int(first[n]) for n in (1, 2, 3, 6, 7)) / _TICKS_PER_S
