"""The real server as a child process: start, kill, restart, stop.

Owns the process, its data directory and its log. Readiness is the READY line on the
server's standard output, never a sleep or a poll. Used by the conformance and the
adversity tests; signals go to the one process started here, by its id.
"""

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final, Self

from adversity.waiting import wait_until
from support.preloaded import ForkedProcess, start_forked

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"

PROGRAM: Final = [sys.executable, "-m", "partibus"]

# Far above what a start or a stop takes, even on a machine that is busy with other tests.
READY_SECONDS_MAX: Final = 150.0
STOP_SECONDS_MAX: Final = 150.0

_READY: Final = re.compile(
    r"PARTIBUS READY amqp=(?P<amqp>\S+) http=(?P<http>\S+) ca=(?P<ca>\S+)"
    r" connection-string=(?P<connection_string>Endpoint=sb://.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What the READY line says."""

    amqp_host: str
    amqp_port: int
    http_host: str
    http_port: int
    ca: Path
    connection_string: str

    @classmethod
    def parse(cls, line: str) -> "Ready":
        match = _READY.fullmatch(line.rstrip("\n"))
        assert match is not None, f"not a READY line: {line!r}"
        amqp_host, _, amqp_port = match["amqp"].rpartition(":")
        http_host, _, http_port = match["http"].rpartition(":")
        return cls(
            amqp_host=amqp_host,
            amqp_port=int(amqp_port),
            http_host=http_host,
            http_port=int(http_port),
            ca=Path(match["ca"]),
            connection_string=match["connection_string"],
        )


ON_CLUSTER: Final = "PARTIBUS_TESTS_ON_CLUSTER"
"""Set by `make test-cluster`: where a test starts one server, a cluster is started."""


class ServerProcess:
    """One server on one data directory, over any number of lives."""

    def __new__(cls, *_: object) -> Self:
        if cls is ServerProcess and os.environ.get(ON_CLUSTER):
            from support.nodes.cluster_server import ClusterServer

            return super().__new__(ClusterServer)
        return super().__new__(cls)

    def __init__(self, directory: Path, config: Path, *flags: str) -> None:
        self.data = directory / "data"
        self.log = directory / "server.log"
        self._config = config
        self._flags = flags
        self._process: subprocess.Popen[str] | ForkedProcess | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._ready: Ready | None = None
        self.runs_on: tuple[str, ...] = ()
        """What the command is begun with, to run it in a network of its own."""
        self.environment: dict[str, str] = {}
        """Beside the ordinary one."""
        self.program = PROGRAM
        self.ready_seconds_max = READY_SECONDS_MAX
        self.needs_key = True
        """False for who wants the READY line of a later start as it is, without its key."""

    @property
    def ready(self) -> Ready:
        assert self._ready is not None, "the server was never started"
        return self._ready

    @property
    def connection_string(self) -> str:
        return self.ready.connection_string

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and nobody has waited for its end."""
        return self._process is not None

    def wait(self) -> int:
        """Return the exit code when it ends by itself."""
        assert self._process is not None, "the server is not running"
        code = self._process.wait(timeout=STOP_SECONDS_MAX)
        self._process = None
        return code

    def start(self) -> None:
        """Start and return once the READY line is out; a restart keeps the port."""
        assert self._process is None, "the server runs already"
        port = str(self._port_again())
        words = ["serve", "--data", str(self.data), "--config", str(self._config), "--port", port]
        words += ["--tls-port", "0", "--http-port", "0", *self._flags]
        with self.log.open("ab") as log:
            self._process = self._begin(words, log)
        self._lines = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        try:
            line = self._lines.get(timeout=self.ready_seconds_max)
        except queue.Empty:
            line = ""
        if line is None or not line.startswith("PARTIBUS READY"):
            self.sigkill()
            raise AssertionError(f"no READY line but {line!r}; the log says:\n{self.log_text()}")
        ready = Ready.parse(line)
        self._ready = _with_key(ready, self._ready) if self.needs_key else ready

    def _port_again(self) -> int:
        """The port of the last start, 0 for any. Meanwhile it may be the near end of somebody's
        connection, and is waited for."""
        if self._ready is None:
            return 0
        port = self._ready.amqp_port
        if not self.runs_on:
            wait_until(lambda: _is_free(port), f"port {port} is free", seconds=READY_SECONDS_MAX)
        return port

    def _begin(self, words: list[str], log: IO[bytes]) -> "subprocess.Popen[str] | ForkedProcess":
        """Forked where nothing asks for more: no program, network or variables of its own, and no
        library that is loaded first."""
        is_plain = self.program == PROGRAM and not self.runs_on and not self.environment
        variables = environment() | self.environment
        if is_plain and "LD_PRELOAD" not in variables:
            return start_forked(words, variables, log.fileno())
        return subprocess.Popen(
            [*self.runs_on, *self.program, *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=variables,
        )

    def sigkill(self) -> None:
        """The power cut: no chance to say anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """The polite end; returns the exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill if it still runs, then start on the same data directory and port."""
        if self._process is not None:
            self.sigkill()
        self.start()

    def further_output(self) -> list[str]:
        """The lines printed after READY; call it once the process has ended."""
        assert self._process is None, "the server still runs"
        lines = []
        while (line := self._lines.get(timeout=STOP_SECONDS_MAX)) is not None:
            lines.append(line)
        return lines

    def log_text(self, offset: int = 0) -> str:
        """What the server wrote to standard error, from a byte offset on."""
        with self.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            self.stop()

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None, "the server is not running"
        process.send_signal(number)
        try:
            code = process.wait(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(
                f"{number.name} did not end the server:\n{self.log_text()}"
            ) from None
        finally:
            self._process = None
        return code

    @staticmethod
    def _read(
        process: "subprocess.Popen[str] | ForkedProcess", lines: "queue.SimpleQueue[str | None]"
    ) -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(None)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _with_key(ready: Ready, before: Ready | None) -> Ready:
    """Only the first start tells a key that is a secret: what it was is remembered."""
    if "SharedAccessKey=<" not in ready.connection_string:
        return ready
    assert before is not None, "the first start of this process shows no key"
    return replace(ready, connection_string=before.connection_string)


def environment() -> dict[str, str]:
    """Ours, without settings that would reach the server behind the test's back."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARTIBUS_")}
    return kept | {"PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}
