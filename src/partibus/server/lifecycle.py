"""The life of the server process: from its limits to its exit code.

Owns what is process-wide: descriptors, the thread switch interval, the event loop, the
signals and the READY line, which is all that may appear on stdout. It must never print a
traceback for something the user can correct (`failure`). Called by the `serve` verb.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Final

from partibus.domain.clock import Clock, SystemClock
from partibus.domain.errors import BusError, ConfigError
from partibus.server.config import Configuration, ServeSettings
from partibus.server.emulator import greeting
from partibus.server.failure import EXIT_CLEAN, report
from partibus.server.node import Node
from partibus.server.nodes.member import ClusterMember
from partibus.server.service import Service
from partibus.server.workers.supervision import supervise

# The store threads hold the interpreter lock for microseconds between their system calls;
# at the default 5 ms the loop would wait that long for each of them.
SWITCH_INTERVAL_S: Final = 0.0005
# Segments, catalog, libraries and the loop itself; what is left may be sockets.
DESCRIPTORS_RESERVED: Final = 512
# Collecting 10,000 young objects blocks the loop for two milliseconds, 50,000 for ten; the total
# cost is the same.
GC_THRESHOLDS: Final = (10_000, 5, 400)
# Some systems allow a billion, at the price of large tables; nobody needs more than this.
DESCRIPTORS_MAX: Final = 1_048_576
# A machine with a tiny limit can still serve a few clients.
SOCKETS_MIN: Final = 64

PRIVATE_UMASK: Final = 0o077
"""Files that libraries create, such as SQLite's, are private to this user too."""

log = logging.getLogger(__name__)


def run(configuration: Configuration) -> int:
    """Serve until a signal arrives; returns the exit code of the process."""
    os.umask(PRIVATE_UMASK)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    sockets_max = max(SOCKETS_MIN, raise_descriptor_limit() - DESCRIPTORS_RESERVED)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            if configuration.settings.workers > 1:
                return runner.run(
                    supervise(configuration, install_signals, _speaker(configuration))
                )
            runner.run(_serve(configuration, sockets_max))
    except (BusError, OSError) as error:
        return report(error)
    return EXIT_CLEAN


def calm_collector() -> None:
    """Run the garbage collector rarely, and only on objects that traffic creates.

    Almost all objects of the data path die by their reference count; collecting as often as
    the defaults say took a sixth of the loop's time (docs/internals/hot-path.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed, plain asyncio otherwise."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def raise_descriptor_limit() -> int:
    """Allow as many open files as the system permits; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            return soft
    return most


async def _serve(configuration: Configuration, sockets_max: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_exception)
    stopping = asyncio.Event()
    install_signals(loop, stopping.set)
    clock = SystemClock()
    settings = configuration.settings
    member = _member(settings, clock)
    if member is not None:
        member.on_evicted = stopping.set
    node = Node(settings, clock, configuration.definitions, member=member)
    service = Service(node, settings, clock, sockets_max)
    endpoints = await service.start()
    calm_collector()
    _speaker(configuration)(endpoints.ready_line())
    await stopping.wait()
    await service.stop()
    log.info("stopped")


def _member(settings: ServeSettings, clock: Clock) -> ClusterMember | None:
    """The place of this server in a cluster; None when it is alone."""
    if settings.cluster is None:
        return None
    try:
        from partibus.server.nodes.joining import make_member
    except ModuleNotFoundError as error:
        raise ConfigError(
            "The driver of the cluster's database is missing: pip install 'partibus[postgres]'."
        ) from error
    return make_member(settings, clock)


def install_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """SIGTERM and SIGINT: the first stops cleanly, the second at once."""
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            log.warning("second signal: exiting immediately")
            os._exit(128 + number)
        log.info("%s: stopping; a second signal exits immediately", signal.Signals(number).name)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, int(number))


def _speaker(configuration: Configuration) -> Callable[[str], None]:
    """What prints the READY line, and anything else of the mode."""
    return lambda line: announce(greeting(line, configuration.settings.emulator))


def announce(line: str) -> None:
    """Print the READY line; serving continues if its reader has gone away."""
    try:
        print(line, flush=True)
    except OSError as error:
        log.warning("the READY line could not be printed: %s", error)


def log_loop_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Lost connections are normal; everything else is a bug and is logged."""
    error = context.get("exception")
    if isinstance(error, (ConnectionError, TimeoutError)):
        log.debug("%s: %s", context.get("message"), error)
    elif isinstance(error, BaseException):
        log.error("%s", context.get("message"), exc_info=error)
    else:
        log.error("%s", context.get("message"))
