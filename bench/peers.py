"""The servers under measurement, each as a child process on loopback.

Owns what all of them share: how they are addressed, started in a directory of their own,
and stopped by the id of the process. Subclassed by `bus` and `rabbit`; driven by the
scenarios.
"""

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

QUEUE: Final = "bench"
READY_SECONDS_MAX: Final = 300.0
STOP_SECONDS_MAX: Final = 60.0


class Peer:
    """One server; `start` and `stop` may be called any number of times."""

    name: str
    version: str
    user: str
    password: str
    settles_second: bool
    """Whether the server settles what a receiver has taken, or can only be told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pid = 0
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)

    def address(self) -> str:
        return QUEUE

    def start(self) -> float:
        """Start; returns the seconds until clients are served."""
        raise NotImplementedError

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        os.kill(self.pid, number)
        process.wait(STOP_SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
