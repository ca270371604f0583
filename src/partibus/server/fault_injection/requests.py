"""Requests for faults: typed, from JSON and back.

Owns the shapes and limits of requests. It must never need a running server: the service checks
whether a store or an entity exists, and `active_faults` carries a fault out. `for_ms` None means
until it is cleared.
"""

from typing import Any, Final, Literal

import msgspec

from partibus.domain.errors import ArgumentError

FAULT_MS_MAX: Final = 24 * 3600 * 1000
"""A fault that lasts longer than a day is a forgotten one."""
DELAY_MS_MAX: Final = 600_000
RATE_PER_S_MAX: Final = 1e9


class StoreFault(msgspec.Struct, tag_field="kind", tag="store", forbid_unknown_fields=True):
    """A store that fails, is full, or takes `delay_ms` longer for each commit; `up` ends it."""

    store: int
    mode: Literal["down", "full", "slow", "up"]
    delay_ms: int = 0
    for_ms: int | None = None

    @property
    def key(self) -> str:
        return f"store {self.store}"


class LatencyFault(msgspec.Struct, tag_field="kind", tag="latency", forbid_unknown_fields=True):
    """A round trip of `rtt_ms` to every client, `store_ms` more for each commit."""

    rtt_ms: int = 0
    store_ms: int = 0
    for_ms: int | None = None

    @property
    def key(self) -> str:
        return "latency"


class ThrottleFault(msgspec.Struct, tag_field="kind", tag="throttle", forbid_unknown_fields=True):
    """Sends to an entity above a rate are refused as the vendor refuses them."""

    entity: str
    rate_per_s: float
    for_ms: int | None = None

    @property
    def key(self) -> str:
        return f"throttle {self.entity}"


class LocksFault(msgspec.Struct, tag_field="kind", tag="locks", forbid_unknown_fields=True):
    """All locks of an entity are lost, now."""

    entity: str


class ConnectionsFault(
    msgspec.Struct, tag_field="kind", tag="connections", forbid_unknown_fields=True
):
    """All client connections are closed, now."""


class WorkerFault(msgspec.Struct, tag_field="kind", tag="worker", forbid_unknown_fields=True):
    """A worker process is killed, now."""

    worker: int


LastingFault = StoreFault | LatencyFault | ThrottleFault
FaultRequest = (
    StoreFault | LatencyFault | ThrottleFault | LocksFault | ConnectionsFault | WorkerFault
)


def read_request(payload: object) -> FaultRequest:
    """The request in a JSON object; raises ArgumentError if it is not valid."""
    try:
        request: FaultRequest = msgspec.convert(payload, type=FaultRequest)
    except msgspec.ValidationError as error:
        raise ArgumentError(f"This fault is not supported: {error}.") from error
    _check(request)
    return request


def write_request(request: FaultRequest) -> dict[str, Any]:
    """The request as a JSON object."""
    written: dict[str, Any] = msgspec.to_builtins(request)
    return written


def _check(request: FaultRequest) -> None:
    if isinstance(request, StoreFault):
        _within("delay_ms", request.delay_ms, 1 if request.mode == "slow" else 0, DELAY_MS_MAX)
    elif isinstance(request, LatencyFault):
        _within("rtt_ms", request.rtt_ms, 0, DELAY_MS_MAX)
        _within("store_ms", request.store_ms, 0, DELAY_MS_MAX)
    elif isinstance(request, ThrottleFault):
        _within("rate_per_s", request.rate_per_s, 0, RATE_PER_S_MAX)
    if isinstance(request, LastingFault) and request.for_ms is not None:
        _within("for_ms", request.for_ms, 1, FAULT_MS_MAX)


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ArgumentError(f"'{name}' is {value:g}; allowed: {least:g} to {most:g}.")
