"""Servers that are forked from a process with all their modules, instead of executed.

Owns that process, one for each process of the test runner, and what it is asked over a socket. A
server is a process of its own as if it had been executed: its arguments, environment, directory,
output and signals are its own; only its modules and the parser of rules are there already. Nothing
runs in the process that is forked, which has one thread and no event loop. A server that is
executed spends most of its start on loading modules, and the tests start a great many of them.
Executed are the workers of a server, the nodes of clusters, and what is started by the tests of
commands, documents, deployment and the emulator.
"""

import atexit
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from support.garbage import collect_garbage

TESTS: Final = Path(__file__).resolve().parents[1]
MODULES: Final = (
    "partibus.atom.application",
    "partibus.cli.failures",
    "partibus.cli.main",
    "partibus.cli.verbs.serve",
    "partibus.console.pages",
    "partibus.listener.certificates",
    "partibus.listener.http",
    "partibus.listener.websocket",
    "partibus.ops.health",
    "partibus.ops.observed",
    "partibus.rest.routes",
    "partibus.server.lifecycle",
    "uvloop",
)
"""What a server loads, at its start or with the first HTTP request; they load all the others."""
_REQUEST_BYTES_MAX: Final = 1 << 17
_NUMBER: Final = struct.Struct("=i")


class ForkedProcess:
    """A process that was forked; it has those methods of `Popen` that the tests use."""

    def __init__(self, pid: int, stdout: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: TextIO = os.fdopen(stdout, encoding="utf-8")
        self._status = status

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("partibus", timeout)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens to one that has ended, seen or just not yet seen."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = _NUMBER.unpack(os.read(self._status, _NUMBER.size))[0]
            os.close(self._status)
        return self.returncode


def start_forked(
    arguments: Sequence[str], environment: Mapping[str, str], stderr: int
) -> ForkedProcess:
    """`python -m partibus` with these arguments; its output is a pipe, as with `Popen`."""
    output, child_output = os.pipe()
    status, child_status = os.pipe()
    asked = {"arguments": arguments, "environment": dict(environment), "directory": str(Path.cwd())}
    try:
        control = _preloaded()
        descriptors = [child_output, stderr, child_status]
        socket.send_fds(control, [json.dumps(asked).encode()], descriptors)
    finally:
        os.close(child_output)
        os.close(child_status)
    pid = _NUMBER.unpack(os.read(status, _NUMBER.size))[0]
    return ForkedProcess(pid, output, status)


@cache
def _preloaded() -> socket.socket:
    """The way to the process; it ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    from support.server import SOURCE

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(SOURCE), str(TESTS))),
        "PYTHONUNBUFFERED": "1",
    }
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.preloaded", str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # the last one is called first
    return ours


# --- the process that is forked -------------------------------------------------------------


class Forker:
    """Forks when asked, and reports the ends."""

    def __init__(self, control: int) -> None:
        self._control = socket.socket(fileno=control)
        self._status: dict[int, int] = {}
        """Where the end of each child is reported."""
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> dict[str, Any] | None:
        """Serve until there is nobody to ask: None. In a child: what it has to do."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake)
        while True:
            ready = select.select([self._control, self._woken], [], [])[0]
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._control in ready:
                data, descriptors, _, _ = socket.recv_fds(self._control, _REQUEST_BYTES_MAX, 3)
                if not data:
                    return None
                if self._fork(descriptors) == 0:
                    return json.loads(data)

    def _fork(self, descriptors: list[int]) -> int:
        output, errors, status = descriptors
        pid = os.fork()
        if pid == 0:
            os.dup2(output, 1)
            os.dup2(errors, 2)
            self._forget(descriptors)
        else:
            self._status[pid] = status
            os.write(status, _NUMBER.pack(pid))
            os.close(output)
            os.close(errors)
        return pid

    def _forget(self, descriptors: list[int]) -> None:
        """A child has nothing of this: neither descriptors nor the handling of a signal."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        for each in (*descriptors, *self._status.values(), self._woken, self._wake):
            os.close(each)

    def _reap(self) -> None:
        while self._status:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            report = self._status.pop(pid)
            with suppress(BrokenPipeError):  # nobody waits for it
                os.write(report, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(report)


def main() -> None:
    for module in MODULES:
        importlib.import_module(module)
    importlib.import_module("partibus.rules.parser").parse_filter("1=1")  # makes the parser
    collect_garbage()  # a server does so when it has started: for all of them, once
    asked = Forker(int(sys.argv[1])).run()
    if asked is None:
        return
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    package = importlib.import_module("partibus")
    sys.argv = [str(Path(package.__path__[0], "__main__.py")), *asked["arguments"]]
    importlib.import_module("partibus.cli.main").main()


if __name__ == "__main__":
    main()
