"""Faults on demand: lets users test how their programs cope.

Owns the decision whether a fault may be injected here and what it concerns, and the answer of the
whole server. Each process injects its own part (`active_faults`), reached through the control hub.
A server started without `--faults` refuses everything here. Called by the HTTP side (`ops.admin`).
"""

import asyncio
from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import ArgumentError, EntityNotFound, InvalidOperation
from partibus.server.config import ServeSettings
from partibus.server.fault_injection import requests
from partibus.server.fault_injection.active_faults import CLEAR_FAULTS, LIST_FAULTS, SET_FAULT
from partibus.server.operators.inspection import STORES, is_available

NOTICE_POLL_MS: Final = 5
NOTICE_MS_MAX: Final = 2_000
"""A store in the middle of a slow commit notices later; the request does not wait for that."""
SWITCHED_OFF: Final = (
    "Fault injection is off: the server was started without --faults. Start it with "
    "'partibus serve --faults', or set PARTIBUS_FAULTS=true, where faults are wanted."
)


class FaultService:
    """Accepts requests for faults and passes them to the workers."""

    def __init__(self, settings: ServeSettings, catalog: Catalog, control: ControlHub) -> None:
        self._settings = settings
        self._catalog = catalog
        self._control = control

    async def set(self, payload: object) -> Payload:
        """Inject a fault; returns the request and how much it affected."""
        self._require_switched_on()
        request = self._checked(requests.read_request(payload))
        written = requests.write_request(request)
        if isinstance(request, requests.WorkerFault):
            answer = await self._control.ask(request.worker, SET_FAULT, written)
            return {**written, "count": answer["count"]}
        answers = await self._control.ask_all(SET_FAULT, written)
        if isinstance(request, requests.StoreFault) and request.mode in ("down", "full"):
            await self._until_down(request.store)
        count = sum(answer["count"] for answer in answers.values())
        # Every node of a cluster keeps the faults of a lane, which may move; the lane counts
        # once.
        return {
            **written,
            "count": min(1, count) if isinstance(request, requests.StoreFault) else count,
        }

    async def _until_down(self, store: int) -> None:
        """Answer when the store has gone down, so that the caller finds it down."""
        for _ in range(NOTICE_MS_MAX // NOTICE_POLL_MS):
            for stores in (await self._control.ask_all(STORES, {})).values():
                reported = stores.get(str(store))
                if reported is not None and not is_available(reported["state"]):
                    return
            await asyncio.sleep(NOTICE_POLL_MS / 1000)

    async def list(self) -> Payload:
        """The active faults of all workers, each once."""
        self._require_switched_on()
        answers = await self._control.ask_all(LIST_FAULTS, {})
        merged: dict[str, Payload] = {}
        for faults in answers.values():
            for key, fault in faults.items():
                known = merged.setdefault(key, fault)
                if known is not fault and fault["refused"] is not None:
                    known["refused"] = (known["refused"] or 0) + fault["refused"]
        return {"faults": list(merged.values())}

    async def clear(self, key: str | None = None) -> Payload:
        """End every fault, or the one with a key; returns which ones."""
        self._require_switched_on()
        answers = await self._control.ask_all(CLEAR_FAULTS, {} if key is None else {"key": key})
        return {"cleared": sorted({key for a in answers.values() for key in a["cleared"]})}

    def _require_switched_on(self) -> None:
        if not self._settings.faults:
            raise InvalidOperation(SWITCHED_OFF)

    def _checked(self, request: requests.FaultRequest) -> requests.FaultRequest:
        """The request with names as the catalog spells them; a missing entity is an error."""
        if (
            isinstance(request, requests.StoreFault)
            and not 0 <= request.store < self._settings.stores
        ):
            last = self._settings.stores - 1
            raise EntityNotFound(f"There is no store {request.store}; the stores are 0 to {last}.")
        if isinstance(request, requests.WorkerFault):
            self._check_worker(request.worker)
        if isinstance(request, requests.ThrottleFault | requests.LocksFault):
            request.entity = self._catalog.entity(request.entity).path
        return request

    def _check_worker(self, worker: int) -> None:
        workers = self._control.workers
        if len(workers) == 1:
            raise InvalidOperation(
                "This server runs in one process, so killing its worker would stop it. Start it "
                "with --workers 2 or more to see the others continue."
            )
        if worker not in workers:
            known = ", ".join(map(str, workers))
            raise ArgumentError(f"There is no worker {worker}; the workers are {known}.")
