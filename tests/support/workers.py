"""A server of several workers: which processes they are, and the end of one of them.

Owns the way from the supervisor's log to the process of a worker. A worker is killed by its id,
never by a name; when it serves again is what the log says, not a guess at a time.
"""

import contextlib
import os
import re
import signal
from pathlib import Path
from typing import Final

from adversity.waiting import wait_until
from support.server import ServerProcess

WORKERS: Final = 2
STORES: Final = 4
_LOOPBACK: Final = "0100007F"
_ESTABLISHED: Final = "01"
_STARTED: Final = re.compile(r"worker (\d+) runs as process (\d+)")


class WorkersServer(ServerProcess):
    """One server with several worker processes."""

    def __init__(self, directory: Path, config: Path, *flags: str) -> None:
        super().__init__(
            directory, config, "--workers", str(WORKERS), "--stores", str(STORES), *flags
        )

    def worker_pids(self) -> dict[int, int]:
        """The process of each worker, as started last."""
        return {int(worker): int(pid) for worker, pid in _STARTED.findall(self.log_text())}

    def sigkill(self) -> None:
        """Workers notice that their supervisor is gone and stop; until then they have the port."""
        workers = self.worker_pids().values()
        super().sigkill()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers have stopped")

    def kill_worker(self, worker: int) -> int:
        """The power cut for one worker; answers the place in the log to look from."""
        offset = self.log.stat().st_size
        os.kill(self.worker_pids()[worker], signal.SIGKILL)
        return offset

    def wait_worker(self, worker: int, offset: int) -> None:
        """Until a worker that was killed serves again and the others have found it."""
        wait_until(
            lambda: f"worker {worker} serves again" in self.log_text(offset),
            f"worker {worker} serves again",
        )


def declare(path: Path, lock_duration: str = "PT5M") -> Path:
    """Queues of one fragment in every store, and partitioned ones over all stores."""
    blocks = [
        f'[[queue]]\nname = "plain-{n}"\nlock_duration = "{lock_duration}"\n' for n in range(8)
    ]
    blocks += [
        f'[[queue]]\nname = "parts-{n}"\nlock_duration = "{lock_duration}"\n'
        "enable_partitioning = true\nmax_delivery_count = 1000\n"
        for n in range(4)
    ]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not looked after does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def served_by(client_port: int, server: WorkersServer) -> int:
    """Which worker holds the other end of a client's connection, as the kernel tells it."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = [f"{_LOOPBACK}:{port:04X}" for port in (server.ready.amqp_port, client_port)]
    # A row can be there twice when the table changes while it is read, and the connection of
    # another test, between the same ports, may be about to end.
    (inode,) = {row[9] for row in rows if row[1:3] == ends and row[3] == _ESTABLISHED}
    for worker, pid in server.worker_pids().items():
        if f"socket:[{inode}]" in _descriptors(pid):
            return worker
    raise AssertionError("nobody holds the connection")


def runtime_directories(pid: int) -> set[Path]:
    """Where the Unix sockets lie that a process listens on."""
    inodes = _descriptors(pid)
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {Path(row[7]).parent for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in inodes}


def _descriptors(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return found
