"""A worker as the supervisor holds it: a child process and the two pipes to it.

Owns the command line of a worker and the protocol of the pipes: the assignment goes in and the pipe
stays open; `checked` comes out when its stores are in order, `go` goes in when those of all others
are too, and `ready` comes out; before that, a `starting` comes whenever the start has made progress
and the last one was a second ago; then each `ping` is answered by `alive` as long as the worker's
loop runs. It must never decide about restarts. Made by the supervisor.
"""

import asyncio
import contextlib
import sys
from typing import Final

from partibus.server.workers.assignment import Assignment, encode_assignment

CHECKED_WORD: Final = b"checked"
GO_WORD: Final = b"go"
READY_WORD: Final = b"ready"
STARTING_WORD: Final = b"starting"
PING_LINE: Final = b"ping\n"
ALIVE_LINE: Final = b"alive\n"


class WorkerProcess:
    """One incarnation of one worker."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.signs_of_life = 0

    async def wait_checked(self) -> bool:
        """Whether it found its stores in order; False when it ended instead."""
        return await self._says(CHECKED_WORD)

    def go(self) -> None:
        """Let it continue: everything that the workers share is ready."""
        assert self._process.stdin is not None
        self._process.stdin.write(GO_WORD + b"\n")

    async def wait_ready(self) -> bool:
        """Whether it serves; False when it ended instead, after reporting why on stderr."""
        return await self._says(READY_WORD)

    async def _says(self, word: bytes) -> bool:
        assert self._process.stdout is not None
        while (line := await self._process.stdout.readline()).strip() == STARTING_WORD:
            self.signs_of_life += 1
        return line.strip() == word

    async def wait(self) -> int:
        """Its exit code, negative for the signal that ended it."""
        return await self._process.wait()

    async def is_alive(self, within_s: float) -> bool:
        """Whether it answers a ping, this one or an earlier one, within the time."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(ConnectionError):
            stdin.write(PING_LINE)
        try:
            line = await asyncio.wait_for(stdout.readline(), within_s)
        except TimeoutError:
            return False
        if not line:
            # It has ended, which is noticed elsewhere: neither an answer nor a hang.
            await asyncio.sleep(within_s)
        return bool(line)

    def terminate(self) -> None:
        """Ask it to stop cleanly."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


async def launch(assignment: Assignment) -> WorkerProcess:
    """Start a worker and send it its assignment."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "partibus.server.workers.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    # If the worker has already died, waiting for it shows that.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(encode_assignment(assignment))
        await process.stdin.drain()
    return WorkerProcess(process)
