"""Faults of a namespace, controlled by a test (docs/guides/faults.md).

Owns the methods by which a test injects faults. A lasting fault ends with its `with` block, after
`lasting`, by `clear`, or with the namespace. The server injects it: the fault is active when the
call returns.
"""

from typing import Any, Self

from partibus.testing.kit.control import Control
from partibus.testing.kit.durations import Duration, milliseconds


class Fault:
    """A lasting fault; as a context manager it ends with the block."""

    def __init__(self, control: Control, key: str) -> None:
        self._control = control
        self.key = key
        """Its name in `Faults.active`."""

    def end(self) -> None:
        """End this fault."""
        self._control.ask("DELETE", "/faults", key=self.key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.end()


class Faults:
    """Injects faults into one namespace; others on the same server are not affected."""

    def __init__(self, control: Control) -> None:
        self._control = control

    # --- that last ----------------------------------------------------------------------------

    def store_down(self, store: int = 0, *, lasting: Duration | None = None) -> Fault:
        """A store refuses every write; sends to its queues fail with server-busy."""
        return self._begin(f"store {store}", lasting, kind="store", store=store, mode="down")

    def store_full(self, store: int = 0, *, lasting: Duration | None = None) -> Fault:
        """A store has no space left; in memory that looks like a store that is down."""
        return self._begin(f"store {store}", lasting, kind="store", store=store, mode="full")

    def store_slow(self, by: Duration, store: int = 0, *, lasting: Duration | None = None) -> Fault:
        """Each commit of a store takes longer."""
        delay_ms = milliseconds(by)
        return self._begin(
            f"store {store}", lasting, kind="store", store=store, mode="slow", delay_ms=delay_ms
        )

    def latency(
        self, rtt: Duration = 0.0, *, store: Duration = 0.0, lasting: Duration | None = None
    ) -> Fault:
        """A round trip to every client takes longer, and each commit."""
        times = {"rtt_ms": milliseconds(rtt), "store_ms": milliseconds(store)}
        return self._begin("latency", lasting, kind="latency", **times)

    def throttle(self, entity: str, rate_per_s: float, *, lasting: Duration | None = None) -> Fault:
        """Sends to an entity above a rate are refused with server-busy."""
        return self._begin(
            f"throttle {entity}", lasting, kind="throttle", entity=entity, rate_per_s=rate_per_s
        )

    # --- at once --------------------------------------------------------------------------------

    def drop_locks(self, entity: str) -> int:
        """All locks of an entity are lost; returns how many there were."""
        return int(self._ask(kind="locks", entity=entity)["count"])

    def close_connections(self) -> int:
        """All client connections of the namespace are closed; returns how many there were."""
        return int(self._ask(kind="connections")["count"])

    # --- all ------------------------------------------------------------------------------------

    def active(self) -> list[dict[str, Any]]:
        """The active faults, and how long each still lasts."""
        found: list[dict[str, Any]] = self._control.ask("GET", "/faults")["faults"]
        return found

    def clear(self) -> None:
        """End every fault of the namespace."""
        self._control.ask("DELETE", "/faults")

    def _begin(self, key: str, lasting: Duration | None, **fault: object) -> Fault:
        if lasting is not None:
            fault["for_ms"] = milliseconds(lasting)
        self._ask(**fault)
        return Fault(self._control, key)

    def _ask(self, **fault: object) -> dict[str, Any]:
        return self._control.ask("POST", "/faults", fault)
