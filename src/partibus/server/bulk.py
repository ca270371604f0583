"""The bulk path of this server: where each fragment is read and written in bulk.

Owns the start of this worker's Flight server, on the first request for its address, since its
library is large; and the answer over all workers. It must never move messages itself. The HTTP side
calls it for one entity at a time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from partibus.bulk.service import BulkService
from partibus.bulk.staging import StagingService
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.access.access import require
from partibus.control.placement import worker_of
from partibus.domain.address import parse_address
from partibus.domain.clock import Clock
from partibus.domain.errors import NotImplementedHere, OperationTimeout, Unauthorized
from partibus.domain.rights import Rights
from partibus.gateway.gateway import Gateway
from partibus.listener.own_address import EVERY_INTERFACE
from partibus.server.config import ServeSettings

if TYPE_CHECKING:
    from partibus.bulk.flight_server import BulkServer

BULK: Final = "bulk"
START_S_MAX: Final = 60.0
START_POLL_S: Final = 0.05
INSTALL_COMMAND: Final = "pip install 'partibus[flight]'"

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class BulkPath:
    """Bulk, as the other parts of the server ask for it."""

    settings: ServeSettings
    gateway: Gateway
    clock: Clock
    control: ControlHub

    def __post_init__(self) -> None:
        self._memory = self.gateway.memory
        self._server: BulkServer | None = None
        self._starting: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self.certificates: Callable[[], tuple[bytes, bytes]] | None = None
        """The server's certificate and its key; without them bulk is served on loopback only."""
        self.owner_of: Callable[[int], int | None] | None = None
        """The node that serves a lane, in a cluster; None: stores belong to workers."""
        self.control.register(BULK, self._where)

    # --- this worker ----------------------------------------------------------------------

    def _where(self, payload: Payload) -> Payload:
        """The port of this worker's Flight server; None until it has started."""
        if self._failure is not None:
            return {"failure": self._failure}
        if self._server is None:
            if self._starting is None:
                self._starting = asyncio.get_running_loop().create_task(self._start())
            return {"port": None}
        where = {"port": self._server.port, "tls": not self.settings.loopback_only}
        # Nodes are on separate machines; workers are on the machine that the client has reached.
        return where if self.owner_of is None else {**where, "host": self.settings.peer_host}

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.run_in_executor(None, self._make, loop)
        except ImportError:
            self._failure = f"Bulk needs pyarrow: {INSTALL_COMMAND}, then start the server again."
        except Exception:
            _log.exception("the Flight server did not start")
            self._failure = "The Flight server did not start; see the server's log."

    def _make(self, loop: asyncio.AbstractEventLoop) -> "BulkServer":
        from partibus.bulk.flight_server import BulkServer

        port = self.settings.flight_port
        host = "[::]" if self.settings.host == EVERY_INTERFACE else self.settings.host
        offset = self.control.worker if self.owner_of is None else 0
        location = f"{host}:{port + offset if port else 0}"
        namespace = self.gateway.namespace
        services = (BulkService(namespace), StagingService(namespace))
        if self.settings.loopback_only:
            return BulkServer(f"grpc://{location}", loop, *services, self, self._memory)
        assert self.certificates is not None
        certificates = [self.certificates()]
        return BulkServer(
            f"grpc+tls://{location}", loop, *services, self, self._memory, certificates
        )

    def admit(self, token: str) -> None:
        """Raise Unauthorized unless the token is valid, whatever entity it is for."""
        if not token:
            raise Unauthorized("A token is needed in the authorization header.")
        self.gateway.access.authenticate_any(token, self.clock.now_ms())

    def authorize(self, token: str, path: str, right: Rights) -> None:
        """Raise Unauthorized unless the token grants a right on a path."""
        if not token:
            raise Unauthorized("A token is needed in the authorization header.")
        now_ms = self.clock.now_ms()
        grant = self.gateway.access.authenticate_token(token, path, now_ms)
        require([grant], path, right, now_ms)

    async def stop(self) -> None:
        """Stop the Flight server; pending calls are cut off."""
        server, self._server = self._server, None
        if self._starting is not None:
            self._starting.cancel()
        if server is not None:
            await asyncio.get_running_loop().run_in_executor(None, server.shutdown)

    # --- all workers ----------------------------------------------------------------------

    async def entity(self, name: str, host: str, token: str | None) -> Payload:
        """Where each fragment of an entity is read and written in bulk."""
        # First: a client without a right must not learn whether the entity exists.
        self._authorize_any(token or "", parse_address(name).path)
        entity = BulkService(self.gateway.namespace).entity(name)
        record = entity.record
        owners = [self._owner(placement.store) for placement in record.fragments]
        locations = await self._locations(host, sorted({n for n in owners if n is not None}))
        return {
            "entity": record.path,
            "generation": record.entity_id,
            "kind": record.kind.value,
            "requires_session": entity.spec.requires_session,
            "detects_duplicates": entity.spec.requires_duplicate_detection,
            "message_bytes_max": entity.message_bytes_max,
            "fragments": [
                {
                    "index": i,
                    "fragment_id": p.fragment_id,
                    "location": None if owner is None else locations.get(owner),
                }
                for i, (p, owner) in enumerate(zip(record.fragments, owners, strict=True))
            ],
        }

    def _authorize_any(self, token: str, path: str) -> None:
        try:
            self.authorize(token, path, Rights.LISTEN)
        except Unauthorized:
            self.authorize(token, path, Rights.SEND)

    def _owner(self, store: int) -> int | None:
        """The worker or node that serves a lane; None while it moves between two."""
        if self.owner_of is None:
            return worker_of(store, self.settings.workers)
        return self.owner_of(store)

    async def _locations(self, host: str, workers: list[int]) -> dict[int, str]:
        """The address of the Flight server of each worker, once all that answer have one."""
        deadline = asyncio.get_running_loop().time() + START_S_MAX
        while True:
            answers: dict[int, dict[str, Any]] = await self.control.ask_each(workers, BULK, {})
            failures = [answer["failure"] for answer in answers.values() if "failure" in answer]
            if failures:
                raise NotImplementedHere(failures[0])
            if all(answer["port"] is not None for answer in answers.values()):
                return {
                    worker: _location(answer.get("host", host), answer)
                    for worker, answer in answers.items()
                }
            if asyncio.get_running_loop().time() > deadline:
                raise OperationTimeout("The Flight servers did not start in time; try again.")
            await asyncio.sleep(START_POLL_S)


def _location(host: str, answer: Payload) -> str:
    return f"grpc{'+tls' if answer['tls'] else ''}://{host}:{answer['port']}"
