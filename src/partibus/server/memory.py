"""How much memory the process may use, and how free memory is returned to the system.

Owns the default of the setting `memory_limit` and the call to the allocator.
`gateway.memory_account` does the counting. Called by the node.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partibus.gateway.memory.account import MEMORY_BYTES_DEFAULT
from partibus.server.config import ServeSettings

CGROUP: Final = Path("/sys/fs/cgroup")
CGROUP_OF_PROCESS: Final = Path("/proc/self/cgroup")
_LIMIT_FILES: Final = ("memory.max", "memory.limit_in_bytes")
"""Of control groups version 2, and of version 1."""


def memory_limit_bytes(settings: ServeSettings) -> int:
    """How much memory clients may use in this process; workers share the server's limit."""
    limit = settings.memory_limit
    if limit is None:
        limit = min(MEMORY_BYTES_DEFAULT, usable_bytes() // 4)
    return max(1, limit // settings.workers)


def usable_bytes(root: Path = CGROUP, of_process: Path = CGROUP_OF_PROCESS) -> int:
    """The memory of the machine, or of the container when that is less."""
    usable = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups(root, of_process):
        for name in _LIMIT_FILES:
            try:
                text = (group / name).read_text(encoding="ascii").strip()
            except OSError:
                continue
            if text.isdigit():
                usable = min(usable, int(text))
    return usable


def _groups(root: Path, of_process: Path) -> list[Path]:
    """The control groups of the process, which are limited by their parents too."""
    groups = [root, root / "memory"]
    try:
        lines = of_process.read_text(encoding="utf-8").splitlines()
    except OSError:
        return groups
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        group = root / controllers
        for part in Path(path.lstrip("/")).parts:
            group = group / part
            groups.append(group)
    return groups


def give_memory_back(loop: asyncio.AbstractEventLoop) -> None:
    """Return free memory to the system, in a thread: it may take a few milliseconds."""
    trim = _trimmer()
    if trim is not None:
        loop.run_in_executor(None, trim, 0)


def _trimmer() -> Callable[[int], int] | None:
    """glibc's; other allocators return memory by themselves."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    return trim
