"""What a server process takes from the machine, as the kernel counts it.

Reads /proc of the one process that the test started. Memory is resident memory, processor
time is user and system time of all its threads.
"""

import os
import re
from pathlib import Path
from typing import Final

KILOBYTE: Final = 1024
MEGABYTE: Final = 1024 * KILOBYTE
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Memory of the process that lies in RAM."""
    return _status_bytes(pid, "VmRSS")


def resident_bytes_peak(pid: int) -> int:
    """The most memory of the process that ever lay in RAM at a time."""
    return _status_bytes(pid, "VmHWM")


def cpu_seconds(pid: int) -> float:
    """Processor time that the process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def descriptor_count(pid: int) -> int:
    """Files and sockets that the process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _status_bytes(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None, f"no {name} in the status of process {pid}"
    return int(match[1]) * KILOBYTE
