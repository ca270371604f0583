"""The active faults of one process, and when each ends.

Owns the list of faults and the end of each, by its time or by request. It sets what stores and
gateway offer for it (`store.fault_injection`, `gateway.fault_injection`), and must never know how
they work. Called through the control hub, in every worker; made only with `--faults`.
"""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.address import parse_address
from partibus.domain.clock import Clock
from partibus.domain.scheduler import Scheduler, Timer
from partibus.fragment.commands import DropLocks
from partibus.gateway.fault_injection import ClientFaults, Throttle
from partibus.gateway.gateway import Gateway
from partibus.server.fault_injection import requests
from partibus.store.fault_injection import StoreFaults

SET_FAULT: Final = "set-fault"
LIST_FAULTS: Final = "list-faults"
CLEAR_FAULTS: Final = "clear-faults"
KILL_DELAY_MS: Final = 50
"""Time to send the answer before the process ends."""


@dataclass(eq=False, slots=True)
class ActiveFault:
    """An active fault, and when it ends by itself."""

    request: requests.LastingFault
    ends_ms: int | None
    timer: Timer | None = field(init=False, default=None)
    throttle: Throttle | None = field(init=False, default=None)


class ActiveFaults:
    """All faults of this process; `stores` are keyed by the store's number."""

    def __init__(
        self,
        stores: Mapping[int, StoreFaults],
        gateway: Gateway,
        client_faults: ClientFaults,
        clock: Clock,
        scheduler: Scheduler,
        kill: Callable[[], None] | None = None,
    ) -> None:
        self._stores = stores
        self._gateway = gateway
        self._client_faults = client_faults
        self._now_ms = clock.monotonic_ms
        self._scheduler = scheduler
        self._kill = kill if kill is not None else _end_this_process
        self._active: dict[str, ActiveFault] = {}

    def register(self, control: ControlHub) -> None:
        """Register the questions of this process."""
        control.register(SET_FAULT, self.set)
        control.register(LIST_FAULTS, self.list)
        control.register(CLEAR_FAULTS, self.clear)

    # --- questions ------------------------------------------------------------------------

    def set(self, payload: Payload) -> Payload:
        """Inject a fault, as far as it concerns this process; returns how much it affected."""
        request = requests.read_request(payload)
        if isinstance(request, requests.LastingFault):
            return {"count": int(self._begin(request))}
        if isinstance(request, requests.LocksFault):
            return {"count": self._drop_locks(request.entity)}
        if isinstance(request, requests.ConnectionsFault):
            reason = "The server closes all connections on request; reconnect."
            return {"count": self._gateway.close_connections(reason)}
        self._scheduler.call_later_ms(KILL_DELAY_MS, self._kill)
        return {"count": 1}

    def list(self, payload: Payload) -> Payload:
        """The active faults by their key, each with its remaining time."""
        now_ms = self._now_ms()
        return {
            key: {
                **requests.write_request(fault.request),
                "left_ms": None if fault.ends_ms is None else max(0, fault.ends_ms - now_ms),
                "refused": None if fault.throttle is None else fault.throttle.refused_count,
            }
            for key, fault in self._active.items()
        }

    def clear(self, payload: Payload) -> Payload:
        """End every fault, or the one with a key; returns which ones."""
        only = payload.get("key")
        keys = [key for key in self._active if only is None or key == only]
        for key in keys:
            self._end(key)
        return {"cleared": keys}

    # --- beginning and ending ---------------------------------------------------------------

    def _begin(self, request: requests.LastingFault) -> bool:
        """Replace the fault with the same key; False when it does not concern this process."""
        if isinstance(request, requests.StoreFault) and request.store not in self._stores:
            return False
        had_one = self._end(request.key)
        if isinstance(request, requests.StoreFault) and request.mode == "up":
            return had_one
        ends_ms = None if request.for_ms is None else self._now_ms() + request.for_ms
        fault = self._active[request.key] = ActiveFault(request, ends_ms)
        if request.for_ms is not None:
            key = request.key
            fault.timer = self._scheduler.call_later_ms(request.for_ms, lambda: self._over(key))
        self._apply(fault)
        return True

    def _apply(self, fault: ActiveFault) -> None:
        request = fault.request
        if isinstance(request, requests.StoreFault) and request.mode == "down":
            self._stores[request.store].fail()
        elif isinstance(request, requests.StoreFault) and request.mode == "full":
            self._stores[request.store].fill()
        elif isinstance(request, requests.LatencyFault):
            self._client_faults.rtt_ms = request.rtt_ms
        elif isinstance(request, requests.ThrottleFault):
            fault.throttle = Throttle(request.rate_per_s, self._gateway.monotonic_ms())
            self._client_faults.set_throttle(request.entity, fault.throttle)
        self._set_delays()

    def _over(self, key: str) -> None:
        """A fault has timed out."""
        self._active[key].timer = None
        self._end(key)

    def _end(self, key: str) -> bool:
        fault = self._active.pop(key, None)
        if fault is None:
            return False
        if fault.timer is not None:
            fault.timer.cancel()
        request = fault.request
        if isinstance(request, requests.StoreFault):
            self._stores[request.store].heal()
        elif isinstance(request, requests.LatencyFault):
            self._client_faults.rtt_ms = 0
        else:
            self._client_faults.set_throttle(request.entity, None)
        self._set_delays()
        return True

    def _set_delays(self) -> None:
        """A slow store and latency add up."""
        delays = dict.fromkeys(self._stores, 0)
        for fault in self._active.values():
            request = fault.request
            if isinstance(request, requests.LatencyFault):
                delays = {store: delay + request.store_ms for store, delay in delays.items()}
            elif isinstance(request, requests.StoreFault):
                delays[request.store] += request.delay_ms
        for store, delay_ms in delays.items():
            self._stores[store].delay(delay_ms)

    # --- at once ----------------------------------------------------------------------------

    def _drop_locks(self, path: str) -> int:
        """Drop the locks of the fragments that run here."""
        count = 0
        for fragment in self._gateway.namespace.resolve(parse_address(path)).fragments:
            local = fragment.local
            if local is not None:
                count += local.machine.state.lock_count
                local.submit(DropLocks())
        return count


def _end_this_process() -> None:
    """As if the kernel had killed it: no flush, no close."""
    os.kill(os.getpid(), signal.SIGKILL)
