"""What runs in this process, in numbers: its fragments and its stores.

Owns the answers of one worker to the questions `fragments` and `stores`, as JSON objects. It reads
counters that are kept anyway and changes nothing, so it does not slow messages down. The
administration asks it through the control hub, in every worker.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.fragment.state import State
from partibus.store.interface import StoreState

FRAGMENTS: Final = "fragments"
STORES: Final = "stores"
RANKS: Final = "ranks"
COUNTS: Final = (
    "active",
    "dead_letter",
    "scheduled",
    "deferred",
    "locked",
    "dead_letter_locked",
    "transfer",
    "claimed",
    "retained",
    "staged",
    "transfer_dead_letter",
    "duplicates_dropped",
    "filter_errors",
)
"""The counts of a fragment, in the order in which they are shown."""
_NAMES: Final = (*COUNTS, "bytes")
_DOWN: Final = StoreState.DOWN.value
_COUNTS: Final = attrgetter(*COUNTS, "size_bytes")


class Inspection:
    """The fragments and stores of this process; `brokers` are keyed by the store's number."""

    def __init__(self, brokers: Mapping[int, Broker], machines: Mapping[int, Machine]) -> None:
        self._brokers = brokers
        self._machines = machines
        self._known: dict[int, tuple[int, dict[str, int]]] = {}
        """By fragment, its change number and its counts at the last reading."""

    def register(self, control: ControlHub) -> None:
        """Register the questions of this process."""
        control.register(FRAGMENTS, self.fragments)
        control.register(STORES, self.stores)
        control.register(RANKS, self.ranks)

    def fragments(self, payload: Payload) -> Payload:
        """The state and the counts of the requested fragments that are here, by id.

        `{"stores": {"3": [id, ...]}}` names them by the store in which they are placed.
        """
        answers: dict[str, Any] = {}
        for store, fragment_ids in payload["stores"].items():
            broker = self._brokers.get(int(store))
            if broker is None:
                continue
            state = broker.store.state.value
            for fragment_id in fragment_ids:
                machine = self._machines.get(fragment_id)
                if machine is not None:
                    head = {"state": state, "accessed_ms": machine.used_ms}
                    answers[str(fragment_id)] = head | self._counts_of(fragment_id, machine)
        return answers

    def _counts_of(self, fragment_id: int, machine: Machine) -> dict[str, int]:
        """The counts of a fragment; read again when it has changed."""
        known = self._known.get(fragment_id)
        if known is None or known[0] != machine.changes:
            if len(self._known) > len(self._machines):  # some of them have left
                self._known.clear()
            known = self._known[fragment_id] = machine.changes, counts_of(machine)
        return known[1]

    def ranks(self, payload: Payload) -> Payload:
        """The sum of some counts for every fragment here that has any; for lists by count.

        It reads one or two lengths of each, so that ten thousand fragments take little time.
        """
        readers = [_LENGTHS[name] for name in payload["counts"]]
        found: Payload = {}
        for fragment_id, machine in self._machines.items():
            amount = 0
            for read in readers:
                amount += read(machine.state)
            if amount:
                found[str(fragment_id)] = amount
        return found

    def stores(self, payload: Payload) -> Payload:
        """The state and the size of every store that is open here."""
        return {str(number): store_fields(broker) for number, broker in self._brokers.items()}


_LENGTHS: Final[dict[str, Callable[[State], int]]] = {
    "active": lambda state: state.counts().active if state.claims else _active(state),
    "dead_letter": lambda state: state.dead.message_count,
    "scheduled": lambda state: len(state.scheduled) + len(state.departing),
    "deferred": lambda state: len(state.main.deferred) + state.main.deferred_locked_count,
    "locked": lambda state: state.lock_count,
    "bytes": lambda state: state.size_bytes,
}


def _active(state: State) -> int:
    main = state.main
    return len(main.ready) + main.locked_count + len(main.leaving)


def store_fields(broker: Broker) -> dict[str, Any]:
    """The state and the size of a store."""
    store = broker.store
    return {
        "state": store.state.value,
        "live_bytes": store.live_bytes,
        "disk_bytes": store.disk_bytes,
        "damaged": broker.damage.count,
        "free_bytes": store.free_bytes,
        "shortage": store.shortage,
    }


SILENT_STORE: Final[dict[str, Any]] = {
    "worker": None,
    "state": _DOWN,
    **dict.fromkeys(("live_bytes", "disk_bytes", "damaged", "free_bytes", "shortage")),
}
"""What is shown of a store whose worker does not answer."""


def counts_of(machine: Machine) -> dict[str, int]:
    """The counts of a fragment, and the bytes of its messages."""
    return dict(zip(_NAMES, _COUNTS(machine.state.counts()), strict=True))


def is_available(state: str) -> bool:
    """Whether a store or fragment in this state accepts messages."""
    return state != _DOWN
