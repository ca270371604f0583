"""The main process of a server with several workers.

Owns what is done once for all of them: the ports are checked and held, the data directory is
locked, the certificates and a private directory for their sockets are created, and when all workers
have checked their stores the configuration is applied to the catalog. Then it only watches
(`supervisor`). Called by the lifecycle in place of its own node when `--workers` is more than
one.
"""

import asyncio
import contextlib
import logging
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from partibus.cluster.membership import Membership
from partibus.control.catalog.sealed import SealedCatalog
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.errors import BusError, ConfigError
from partibus.listener.accept import reserve
from partibus.server.config import Configuration, ServeSettings
from partibus.server.data_directory.belonging import Belonging, refuse_lost_catalog
from partibus.server.data_directory.catalog_start import (
    catalog_file,
    connection_string,
    declare,
    open_catalog,
)
from partibus.server.data_directory.directory import lock_data_directory
from partibus.server.data_directory.encryption import data_key_of, encrypted_catalog
from partibus.server.failure import EXIT_CLEAN, EXIT_CONFIG, report
from partibus.server.service import (
    Endpoints,
    endpoints_of,
    identity_of,
    wanted_ports,
)
from partibus.server.workers.assignment import Assignment
from partibus.server.workers.process import launch
from partibus.server.workers.supervisor import Supervisor, WorkerFailed
from partibus.server.workers.watchdog import Watchdog

SOCKET_PATH_BYTES_MAX: Final = 107
"""What the kernel takes as the path of a Unix socket."""

log = logging.getLogger(__name__)


async def supervise(
    configuration: Configuration,
    install_signals: Callable[[asyncio.AbstractEventLoop, Callable[[], None]], None],
    announce: Callable[[str], None],
) -> int:
    """Serve with several workers until a signal arrives; returns the exit code."""
    stopping = asyncio.Event()
    install_signals(asyncio.get_running_loop(), stopping.set)
    with contextlib.ExitStack() as cleanup:
        settings, membership, settle = prepare(configuration, cleanup)
        settled: list[Endpoints] = []
        supervisor = Supervisor(
            settings.workers,
            lambda number: launch(Assignment(settings=settings, membership=membership(number))),
            time.monotonic,
            watchdog=Watchdog(settings.worker_timeout_s),
            settle=lambda: settled.append(settle()),
        )
        try:
            return await _run(supervisor, stopping, lambda: announce(settled[0].ready_line()))
        except WorkerFailed as failure:
            # A worker that failed for a reason the user can correct has already reported it.
            if failure.exit_code < EXIT_CONFIG:
                return report(BusError(str(failure)))
            return failure.exit_code
        finally:
            await supervisor.stop()


async def _run(supervisor: Supervisor, stopping: asyncio.Event, ready: Callable[[], None]) -> int:
    stopped = asyncio.create_task(stopping.wait())
    try:
        for step, then in ((supervisor.start, ready), (supervisor.watch, None)):
            task = asyncio.create_task(step())
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return EXIT_CLEAN
            task.result()
            if then is not None:
                then()
    finally:
        stopped.cancel()
    return EXIT_CLEAN


def prepare(
    configuration: Configuration, cleanup: contextlib.ExitStack
) -> tuple[ServeSettings, Callable[[int], Membership], Callable[[], Endpoints]]:
    """What the workers share: settings with actual ports, how to reach each worker, and what is
    done when all of them have found their stores in order."""
    settings = configuration.settings
    clock = SystemClock()
    if settings.stores < settings.workers:
        log.warning(
            "%d of %d workers have no store of their own and only serve connections: "
            "a store is written by one worker, so give --stores %d or more",
            settings.workers - settings.stores,
            settings.workers,
            settings.workers,
        )
    numbers = _reserve_ports(settings, cleanup)
    lock_data_directory(settings, cleanup)
    runtime = _runtime_directory(cleanup, settings.workers)
    tls = runtime / "tls" if settings.memory else settings.data / "tls"
    identity = identity_of(settings, lambda: tls, clock)
    identity.ensure()
    file = catalog_file(settings) or runtime / "catalog.db"
    data_key = data_key_of(settings, makes=True)
    encrypted = encrypted_catalog(data_key, file, settings, None, cleanup)
    check_catalog(file, settings, clock, encrypted)
    group_id = secrets.randbits(32)

    def membership(worker: int) -> Membership:
        return Membership(
            worker=worker,
            workers=settings.workers,
            group_id=group_id,
            runtime=runtime,
            catalog=file,
            tls=tls,
            working=None if encrypted is None else encrypted.working.parent,
        )

    settled = replace(
        settings,
        port=numbers.get("--port"),
        tls_port=numbers.get("--tls-port"),
        http_port=numbers.get("--http-port"),
    )

    def settle() -> Endpoints:
        with contextlib.closing(open_catalog(file, settings, clock, encrypted)) as catalog:
            shows_key = declare(catalog, settings, configuration.definitions)
            string = partial(connection_string, catalog, settings.data, shows_key)
            return endpoints_of(numbers, settings, identity.ca_path, string)

    return settled, membership, settle


def check_catalog(
    file: Path, settings: ServeSettings, clock: Clock, encrypted: SealedCatalog | None = None
) -> None:
    """Refuse what can be detected before any store is opened, once instead of in every worker."""
    if not settings.memory:
        refuse_lost_catalog(file, settings)
    with contextlib.closing(open_catalog(file, settings, clock, encrypted)) as catalog:
        if not settings.memory:
            Belonging(file, settings, catalog).check_places()


def _reserve_ports(settings: ServeSettings, cleanup: contextlib.ExitStack) -> dict[str, int]:
    """Hold the ports while the server runs; port 0 is replaced by an actual one."""
    numbers: dict[str, int] = {}
    for flag, port in wanted_ports(settings).items():
        sockets = reserve(settings.host, port, flag)
        for sock in sockets:
            cleanup.callback(sock.close)
        numbers[flag] = int(sockets[0].getsockname()[1])
    return numbers


def _runtime_directory(cleanup: contextlib.ExitStack, workers: int) -> Path:
    """A directory that only this user can enter, with a path short enough for sockets."""
    for parent in (None, "/tmp"):  # noqa: S108  # TMPDIR may be too deep for a socket's path
        directory = tempfile.TemporaryDirectory(prefix="partibus-", dir=parent)
        path = Path(cleanup.enter_context(directory))
        if len(bytes(path / f"w{workers}")) <= SOCKET_PATH_BYTES_MAX:
            return path
    raise ConfigError("no temporary directory has a short enough path; set TMPDIR to one.")
