"""What a server process takes from the machine, as the kernel counts it.

Reads /proc of the process that the test started and of the processes which that one has
started. Memory is resident memory, processor time is user and system time of all threads.
"""

import os
import re
from pathlib import Path
from typing import Final

KILOBYTE: Final = 1024
MEGABYTE: Final = 1024 * KILOBYTE
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of the server that lies in RAM."""
    return sum(_status_bytes(one, "VmRSS") for one in _family(pid))


def resident_bytes_peak(pid: int) -> int:
    """The most memory of the server that ever lay in RAM at a time."""
    return sum(_status_bytes(one, "VmHWM") for one in _family(pid))


def cpu_seconds(pid: int) -> float:
    """Processor time that the server has used so far."""
    return sum(_ticks(one) for one in _family(pid)) / _TICKS_PER_SECOND


def descriptor_count(pid: int) -> int:
    """Files and sockets that the server has open."""
    return sum(1 for one in _family(pid) for _ in Path(f"/proc/{one}/fd").iterdir())


def _family(pid: int) -> list[int]:
    """The process, its children, and theirs."""
    family = [pid]
    for one in family:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            family += [int(child) for child in children.read_text(encoding="utf-8").split()]
    return family


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _status_bytes(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None, f"no {name} in the status of process {pid}"
    return int(match[1]) * KILOBYTE
