"""One worker: a full node as a child of the supervisor.

Owns the life of that process: it reads its assignment from stdin, reports on stdout when it has
checked its stores, continues when all workers have, reports progress until it is ready, answers
pings, and stops on SIGTERM or when stdin ends, which means that the supervisor has died: no worker
outlives it. Run as `python -m partibus.server.workers.worker`, by the supervisor only.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from functools import partial

from partibus.domain.clock import SystemClock
from partibus.domain.errors import BusError
from partibus.ops.logging import configure_logging
from partibus.server import lifecycle
from partibus.server.failure import EXIT_CLEAN, EXIT_FAILED, report
from partibus.server.node import Node
from partibus.server.service import Service
from partibus.server.start_progress import StartProgress
from partibus.server.workers import process
from partibus.server.workers.assignment import Assignment, decode_assignment
from partibus.server.workers.watchdog import SupervisorHeard

# Not `__name__`, which is `__main__` here.
log = logging.getLogger("partibus.server.workers.worker")


def main() -> int:
    """Serve until asked to stop; returns the exit code."""
    # Ctrl-C goes to the whole process group; the supervisor decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    if not line:
        return EXIT_FAILED
    assignment = decode_assignment(line)
    settings = assignment.settings
    name = f"worker {assignment.membership.worker}"
    configure_logging(settings.log_level, name, settings.log_format, settings.audit_log)
    os.umask(lifecycle.PRIVATE_UMASK)
    sys.setswitchinterval(lifecycle.SWITCH_INTERVAL_S)
    sockets_max = max(
        lifecycle.SOCKETS_MIN, lifecycle.raise_descriptor_limit() - lifecycle.DESCRIPTORS_RESERVED
    )
    try:
        with asyncio.Runner(loop_factory=lifecycle.new_event_loop) as runner:
            runner.run(_serve(assignment, sockets_max))
    except (BusError, OSError) as error:
        return report(error)
    return EXIT_CLEAN


async def _serve(assignment: Assignment, sockets_max: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lifecycle.log_loop_exception)
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    orphaned = asyncio.Event()
    going = asyncio.Event()
    supervisor = SupervisorHeard(loop.time)
    loop.add_reader(sys.stdin.fileno(), _on_stdin, loop, stopping, orphaned, going, supervisor)
    clock = SystemClock()
    settings, membership = assignment.settings, assignment.membership
    progress = StartProgress(partial(_say, process.STARTING_WORD + b"\n"))
    gate = partial(_pass, going, stopping)
    node = Node(settings, clock, membership=membership, gate=gate, progress=progress.step)
    node.health.is_supervised = supervisor.is_at_work
    service = Service(node, settings, clock, sockets_max, membership)
    async with progress.with_the_loop():
        await service.start()
    lifecycle.calm_collector()
    _say(process.READY_WORD + b"\n")
    await stopping.wait()
    await service.stop()
    if orphaned.is_set():
        # The supervisor cannot do it; the other workers are stopping as well.
        shutil.rmtree(membership.runtime, ignore_errors=True)
    log.info("stopped")


async def _pass(going: asyncio.Event, stopping: asyncio.Event) -> None:
    """Continue when the stores of all workers are in order and the catalog is ready."""
    _say(process.CHECKED_WORD + b"\n")
    waits = [asyncio.create_task(event.wait()) for event in (going, stopping)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    if not going.is_set():
        raise BusError("The server stopped while it was starting.")


def _on_stdin(
    loop: asyncio.AbstractEventLoop,
    stopping: asyncio.Event,
    orphaned: asyncio.Event,
    going: asyncio.Event,
    supervisor: SupervisorHeard,
) -> None:
    """Handle the supervisor's lines: permission to continue, and pings, which are answered from the
    loop itself; the end of the pipe is the supervisor's end."""
    words = os.read(sys.stdin.fileno(), 1024)
    if process.GO_WORD in words:
        going.set()
    if process.PING_LINE in words:
        supervisor.asks()
        _say(process.ALIVE_LINE)
    if words:
        return
    loop.remove_reader(sys.stdin.fileno())
    log.error("the supervisor is gone: stopping")
    orphaned.set()
    stopping.set()


def _say(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
