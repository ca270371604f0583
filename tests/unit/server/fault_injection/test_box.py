"""Standing faults of one process: how they begin, end by themselves, and are cleared."""

from partibus.amqp.delivery import ACCEPTED
from partibus.amqp.events import CloseReceived, IncomingSettled, TransferReceived
from partibus.server.fault_injection.box import KILL_DELAY_MS, FaultBox
from partibus.store.interface import StoreState
from partibus.testing.bus import BusBench
from support.gateway_messages import plain


class Box:
    """A bus with its faults, without a process or a socket."""

    def __init__(self, stores: int = 3) -> None:
        self.bus = BusBench(stores=stores, faults=True)
        self.killed: list[bool] = []
        assert self.bus.faults is not None
        self.client_faults = self.bus.faults
        # Store 2 is another worker's.
        own = dict(enumerate(self.bus.store_faults[:2]))
        self.box = FaultBox(
            own,
            self.bus.gateway,
            self.client_faults,
            self.bus.clock,
            self.bus.scheduler,
            kill=lambda: self.killed.append(True),
        )

    def set(self, **payload: object) -> int:
        count = self.box.set(payload)["count"]
        self.bus.scheduler.run()
        assert isinstance(count, int)
        return count

    def states(self) -> list[StoreState]:
        return [store.state for store in self.bus.stores]

    def standing(self) -> dict[str, int | None]:
        return {key: fault["left_ms"] for key, fault in self.box.list({}).items()}


UP, DOWN = StoreState.UP, StoreState.DOWN


def test_a_store_goes_down_and_comes_back_on_demand() -> None:
    box = Box()
    assert box.set(kind="store", store=1, mode="down") == 1
    assert box.states() == [UP, DOWN, UP]
    assert box.standing() == {"store 1": None}
    assert box.set(kind="store", store=1, mode="up") == 1
    assert box.states() == [UP, UP, UP]
    assert box.standing() == {}
    assert box.set(kind="store", store=1, mode="up") == 0


def test_a_store_of_another_process_is_not_touched() -> None:
    box = Box()
    assert box.set(kind="store", store=2, mode="down") == 0
    assert box.states() == [UP, UP, UP]
    assert box.standing() == {}


def test_a_fault_ends_by_itself() -> None:
    box = Box()
    box.set(kind="store", store=0, mode="full", for_ms=30_000)
    box.bus.scheduler.advance_ms(10_000)
    assert box.standing() == {"store 0": 20_000}
    box.bus.scheduler.advance_ms(19_999)
    assert box.states()[0] is DOWN
    box.bus.scheduler.advance_ms(1)
    assert box.states()[0] is UP
    assert box.standing() == {}


def test_a_newer_fault_takes_the_place_of_the_older_one_and_of_its_end() -> None:
    box = Box()
    box.set(kind="store", store=0, mode="down", for_ms=1_000)
    box.set(kind="store", store=0, mode="down", for_ms=60_000)
    box.bus.scheduler.advance_ms(2_000)
    assert box.states()[0] is DOWN
    assert box.standing() == {"store 0": 58_000}


def test_latency_reaches_clients_and_stores_and_adds_up() -> None:
    box = Box()
    box.set(kind="latency", rtt_ms=70, store_ms=10)
    box.set(kind="store", store=1, mode="slow", delay_ms=50)
    assert box.client_faults.rtt_ms == 70
    assert [faults._delay_ms for faults in box.bus.store_faults] == [10, 60, 0]
    box.set(kind="store", store=1, mode="up")
    assert [faults._delay_ms for faults in box.bus.store_faults] == [10, 10, 0]
    assert box.box.clear({}) == {"cleared": ["latency"]}
    assert box.client_faults.rtt_ms == 0
    assert [faults._delay_ms for faults in box.bus.store_faults] == [0, 0, 0]


def test_a_throttle_counts_what_it_refused() -> None:
    box = Box()
    box.bus.queue("orders")
    box.set(kind="throttle", entity="orders", rate_per_s=2)
    client = box.bus.client()
    sender = client.attach("orders", sends=True)
    client.send(sender, [plain(n) for n in range(5)])
    assert box.box.list({})["throttle orders"]["refused"] == 3
    box.box.clear({})
    client.send(sender, [plain(n) for n in range(5)])
    assert box.bus.brokers[0]._machines[1].state.counts().active == 7


def test_dropped_locks_are_counted_and_lost() -> None:
    box = Box()
    (fragment,) = box.bus.queue("orders")
    client = box.bus.client()
    client.send(client.attach("orders", sends=True), [plain(n) for n in range(3)])
    receiver = client.attach("orders", sends=False)
    receiver.set_credit(2)
    client.run()
    first, _ = client.take(TransferReceived)
    assert isinstance(first, TransferReceived)
    assert fragment.machine.state.lock_count == 2
    assert box.set(kind="locks", entity="orders") == 2
    assert fragment.machine.state.lock_count == 0
    receiver.propose(first.delivery_id, ACCEPTED)
    client.run()
    (settled,) = client.take(IncomingSettled)
    assert isinstance(settled, IncomingSettled)
    assert "message-lock-lost" in str(vars_of(settled.state))
    assert fragment.machine.state.counts().active == 3


def vars_of(state: object) -> str:
    error = getattr(state, "error", None)
    return "" if error is None else str(error.condition)


def test_connections_are_closed() -> None:
    box = Box()
    client = box.bus.client()
    assert box.set(kind="connections") == 1
    client.run()
    assert len(client.take(CloseReceived)) == 1


def test_a_worker_answers_before_it_is_killed() -> None:
    box = Box()
    assert box.set(kind="worker", worker=0) == 1
    assert box.killed == []
    box.bus.scheduler.advance_ms(KILL_DELAY_MS)
    assert box.killed == [True]
