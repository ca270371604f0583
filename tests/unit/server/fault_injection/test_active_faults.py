"""Active faults of one process: how they begin, end by themselves, and are cleared."""

from partibus.amqp.delivery import ACCEPTED
from partibus.amqp.events import CloseReceived, IncomingSettled, TransferReceived
from partibus.server.fault_injection.active_faults import KILL_DELAY_MS, ActiveFaults
from partibus.store.interface import StoreState
from partibus.testing.bus import BusBench
from support.gateway.messages import plain


class Bench:
    """A bus with its faults, without a process or a socket."""

    def __init__(self, stores: int = 3) -> None:
        self.bus = BusBench(stores=stores, faults=True)
        self.killed: list[bool] = []
        assert self.bus.faults is not None
        self.client_faults = self.bus.faults
        # Store 2 is another worker's.
        own = dict(enumerate(self.bus.store_faults[:2]))
        self.faults = ActiveFaults(
            own,
            self.bus.gateway,
            self.client_faults,
            self.bus.clock,
            self.bus.scheduler,
            kill=lambda: self.killed.append(True),
        )

    def set(self, **payload: object) -> int:
        count = self.faults.set(payload)["count"]
        self.bus.scheduler.run()
        assert isinstance(count, int)
        return count

    def states(self) -> list[StoreState]:
        return [store.state for store in self.bus.stores]

    def active(self) -> dict[str, int | None]:
        return {key: fault["left_ms"] for key, fault in self.faults.list({}).items()}


UP, DOWN = StoreState.UP, StoreState.DOWN


def test_a_store_goes_down_and_comes_back_on_demand() -> None:
    bench = Bench()
    assert bench.set(kind="store", store=1, mode="down") == 1
    assert bench.states() == [UP, DOWN, UP]
    assert bench.active() == {"store 1": None}
    assert bench.set(kind="store", store=1, mode="up") == 1
    assert bench.states() == [UP, UP, UP]
    assert bench.active() == {}
    assert bench.set(kind="store", store=1, mode="up") == 0


def test_a_store_of_another_process_is_not_touched() -> None:
    bench = Bench()
    assert bench.set(kind="store", store=2, mode="down") == 0
    assert bench.states() == [UP, UP, UP]
    assert bench.active() == {}


def test_a_fault_ends_by_itself() -> None:
    bench = Bench()
    bench.set(kind="store", store=0, mode="full", for_ms=30_000)
    bench.bus.scheduler.advance_ms(10_000)
    assert bench.active() == {"store 0": 20_000}
    bench.bus.scheduler.advance_ms(19_999)
    assert bench.states()[0] is DOWN
    bench.bus.scheduler.advance_ms(1)
    assert bench.states()[0] is UP
    assert bench.active() == {}


def test_a_newer_fault_takes_the_place_of_the_older_one_and_of_its_end() -> None:
    bench = Bench()
    bench.set(kind="store", store=0, mode="down", for_ms=1_000)
    bench.set(kind="store", store=0, mode="down", for_ms=60_000)
    bench.bus.scheduler.advance_ms(2_000)
    assert bench.states()[0] is DOWN
    assert bench.active() == {"store 0": 58_000}


def test_latency_reaches_clients_and_stores_and_adds_up() -> None:
    bench = Bench()
    bench.set(kind="latency", rtt_ms=70, store_ms=10)
    bench.set(kind="store", store=1, mode="slow", delay_ms=50)
    assert bench.client_faults.rtt_ms == 70
    assert [faults._delay_ms for faults in bench.bus.store_faults] == [10, 60, 0]
    bench.set(kind="store", store=1, mode="up")
    assert [faults._delay_ms for faults in bench.bus.store_faults] == [10, 10, 0]
    assert bench.faults.clear({}) == {"cleared": ["latency"]}
    assert bench.client_faults.rtt_ms == 0
    assert [faults._delay_ms for faults in bench.bus.store_faults] == [0, 0, 0]


def test_a_throttle_counts_what_it_refused() -> None:
    bench = Bench()
    bench.bus.queue("orders")
    bench.set(kind="throttle", entity="orders", rate_per_s=2)
    client = bench.bus.client()
    sender = client.attach("orders", sends=True)
    client.send(sender, [plain(n) for n in range(5)])
    assert bench.faults.list({})["throttle orders"]["refused"] == 3
    bench.faults.clear({})
    client.send(sender, [plain(n) for n in range(5)])
    assert bench.bus.brokers[0]._machines[1].state.counts().active == 7


def test_dropped_locks_are_counted_and_lost() -> None:
    bench = Bench()
    (fragment,) = bench.bus.queue("orders")
    client = bench.bus.client()
    client.send(client.attach("orders", sends=True), [plain(n) for n in range(3)])
    receiver = client.attach("orders", sends=False)
    receiver.set_credit(2)
    client.run()
    first, _ = client.take(TransferReceived)
    assert isinstance(first, TransferReceived)
    assert fragment.machine.state.lock_count == 2
    assert bench.set(kind="locks", entity="orders") == 2
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
    bench = Bench()
    client = bench.bus.client()
    assert bench.set(kind="connections") == 1
    client.run()
    assert len(client.take(CloseReceived)) == 1


def test_a_worker_answers_before_it_is_killed() -> None:
    bench = Bench()
    assert bench.set(kind="worker", worker=0) == 1
    assert bench.killed == []
    bench.bus.scheduler.advance_ms(KILL_DELAY_MS)
    assert bench.killed == [True]
