"""Workers that find, lose and find each other again, over real sockets in one process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from partibus.cluster import peers as peers_module
from partibus.cluster.control_hub import ControlHub
from partibus.cluster.membership import Membership
from partibus.cluster.peers import Peers
from partibus.control.catalog.record import Placement
from partibus.domain.errors import (
    BusError,
    NotImplementedHere,
    OperationTimeout,
    StoreUnavailable,
)
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment, LocalFragment
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.server.scheduler import LoopScheduler
from partibus.store.interface import StoreState
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Ports

SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10)


class Worker:
    """One of two workers; the fragment with the number of the worker plus 1 is its own."""

    def __init__(self, membership: Membership) -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        self.number = membership.worker
        self.store = MemoryStore(notify=scheduler.call_from_thread)
        self.broker = Broker(self.store, ManualClock(), scheduler)
        self.broker.open()
        self.own = LocalFragment(self.broker, self.broker.add(self.number + 1, SPEC), 0)
        self.fragments: dict[int, Fragment] = {self.number + 1: self.own}
        self.control = ControlHub(self.number)
        self.peers = Peers(membership, loop, scheduler, self.fragments.get, self.control)
        self.peers.watch({self.number: self.broker})

    def far(self) -> Fragment:
        other = 1 - self.number
        return self.peers.fragment(Placement(other + 1, other), 0)


@pytest.fixture
def runtime() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pb-") as directory:
        yield Path(directory)


@pytest.fixture
def membership(runtime: Path) -> Membership:
    return Membership(
        worker=0, workers=2, group_id=7, runtime=runtime, catalog=runtime, tls=runtime
    )


@pytest.fixture
async def workers(membership: Membership) -> AsyncIterator[list[Worker]]:
    made = [Worker(replace(membership, worker=number)) for number in range(2)]
    await asyncio.gather(*(worker.peers.start() for worker in made))
    yield made
    for worker in made:
        await worker.peers.close()


async def until(is_so: Callable[[], bool]) -> None:
    """Turn the loop until it is so; the test's own time limit ends a wait in vain."""
    while not is_so():  # noqa: ASYNC110  # each turn is what is waited for
        await asyncio.sleep(0)


async def test_they_find_each_other_and_serve_each_other(workers: list[Worker]) -> None:
    assert [worker.peers.lost_workers() for worker in workers] == [[], []]
    for worker in workers:
        ports = Ports()
        worker.far().submit(Enqueue(ports, [NewMessage(b"hello", -1)], [4], 5))
        await until(lambda ports=ports: bool(ports.confirmations))  # type: ignore[misc]
        assert ports.confirmations == [4]
    assert all(worker.broker.store.state is StoreState.UP for worker in workers)


async def test_a_worker_that_is_back_serves_when_all_others_can_ask_it_again(
    workers: list[Worker], membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one worker changes is known to all when it is answered, also right after a restart."""
    one, two = workers
    # Nobody finds it by trying again: only its greeting says that it is there.
    monkeypatch.setattr(peers_module, "RETRY_S_MIN", 3600.0)
    monkeypatch.setattr(peers_module, "RETRY_S_MAX", 3600.0)
    await two.peers.close()
    await until(lambda: one.peers.lost_workers() == [1])
    back = Worker(replace(membership, worker=1))
    back.control.register("sum", lambda payload: {"sum": 3})
    await back.peers.start()
    assert await one.control.ask(1, "sum", {}) == {"sum": 3}
    await back.peers.close()


async def test_questions_and_their_errors(workers: list[Worker]) -> None:
    one, two = workers
    two.control.register("sum", lambda payload: {"sum": sum(payload["numbers"])})
    one.control.register("sum", lambda payload: {"sum": -1})
    assert await one.control.ask(1, "sum", {"numbers": [1, 2]}) == {"sum": 3}
    assert await one.control.ask_all("sum", {"numbers": []}) == {0: {"sum": -1}, 1: {"sum": 0}}
    with pytest.raises(NotImplementedHere, match="'weather'"):
        await one.control.ask(1, "weather", {})
    with pytest.raises(BusError, match="see the log"):
        await one.control.ask(1, "sum", {})


async def test_a_store_that_goes_down_is_known_everywhere(workers: list[Worker]) -> None:
    one, two = workers
    fragment = one.far()
    assert fragment.is_available
    two.store.state = StoreState.DOWN
    assert two.store.on_state is not None
    two.store.on_state(StoreState.DOWN)
    await until(lambda: not fragment.is_available)
    two.store.state = StoreState.UP
    two.store.on_state(StoreState.UP)
    await until(lambda: fragment.is_available)


async def test_a_worker_that_goes_and_comes_back(
    workers: list[Worker], membership: Membership
) -> None:
    one, two = workers
    fragment = one.far()
    await two.peers.close()
    await until(lambda: one.peers.lost_workers() == [1])
    ports = Ports()
    fragment.submit(Enqueue(ports, [NewMessage(b"hello", -1)], [4], 5))
    await until(lambda: bool(ports.refusals))
    assert isinstance(ports.refusals[0][1], StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        await one.control.ask(1, "anything", {})
    workers[1] = Worker(replace(membership, worker=1))
    await workers[1].peers.start()
    await until(lambda: one.peers.lost_workers() == [])
    fragment.submit(Enqueue(ports, [NewMessage(b"hello", -1)], [5], 5))
    await until(lambda: bool(ports.confirmations))
    assert ports.confirmations == [5]


async def test_a_worker_that_stops_answers_what_it_has_taken(workers: list[Worker]) -> None:
    one, two = workers
    ports = Ports()
    one.far().submit(Enqueue(ports, [NewMessage(b"hello", -1)], [1], 5))
    await until(lambda: not two.broker.is_at_rest)
    two.peers.stop_serving()
    one.far().submit(Enqueue(ports, [NewMessage(b"late", -1)], [2], 4))
    await until(lambda: two.broker.is_at_rest)
    await two.peers.close()
    await until(lambda: bool(ports.refusals))
    assert ports.confirmations == [1]
    ((request, error),) = ports.refusals
    assert (request, type(error)) == (2, OperationTimeout)


async def test_one_that_says_nothing_is_taken_for_lost(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = workers
    monkeypatch.setattr(peers_module, "PING_S", 0.01)
    monkeypatch.setattr(peers_module, "SILENCE_S", 0.05)
    ports = Ports()
    for inbound in two.peers._inbound:
        inbound.channel.receive = lambda rows: None
    one.far().submit(Enqueue(ports, [NewMessage(b"hello", -1)], [1], 5))
    await until(lambda: bool(ports.refusals))
    assert isinstance(ports.refusals[0][1], OperationTimeout)


async def test_the_end_of_a_silent_connection_does_not_end_the_next_one(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket may report the end late (simulated clusters: seeds 900000200 and 900000204)."""
    one, two = workers
    (caller,) = one.peers._callers
    monkeypatch.setattr(caller.channel, "abort", lambda: None)
    monkeypatch.setattr(peers_module, "PING_S", 0.01)
    monkeypatch.setattr(peers_module, "SILENCE_S", 0.05)
    for inbound in two.peers._inbound:
        inbound.channel.receive = lambda rows: None
    await until(lambda: caller not in one.peers._callers and bool(one.peers._callers))
    caller.channel.connection_lost(None)
    assert one.peers.lost_workers() == []
    ports = Ports()
    one.far().submit(Enqueue(ports, [NewMessage(b"hello", -1)], [4], 5))
    await until(lambda: bool(ports.confirmations))


async def test_strangers_are_refused(
    workers: list[Worker], membership: Membership, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(membership.socket_path(0))
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"\x00\x00\x00\x06\x91\x94\x00\x01\x08\x01")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    assert "an unknown process connected" in caplog.text


async def test_a_late_worker_does_not_keep_the_others_waiting_for_ever(
    membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "GATHERING_S", 0.01)
    alone = Worker(membership)
    await alone.peers.start()
    assert alone.peers.lost_workers() == [1]
    await alone.peers.close()


async def test_a_slow_answer_is_not_waited_for(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = workers
    monkeypatch.setattr(peers_module, "ANSWER_S", 0.01)
    for inbound in two.peers._inbound:
        inbound.channel.receive = lambda rows: None
    with pytest.raises(OperationTimeout, match="did not answer 'anything'"):
        await one.control.ask(1, "anything", {})


async def test_answers_that_take_a_while_and_their_errors(workers: list[Worker]) -> None:
    one, two = workers
    go_on = asyncio.Event()

    async def later(payload: dict[str, int]) -> dict[str, int]:
        await go_on.wait()
        if not payload["n"]:
            raise StoreUnavailable
        return {"n": 10 // (payload["n"] - 1)}

    two.control.register("later", later)
    asked = [asyncio.ensure_future(one.control.ask(1, "later", {"n": n})) for n in (3, 0, 1)]
    two.control.register("now", lambda payload: {})
    assert await one.control.ask(1, "now", {}) == {}
    go_on.set()
    done, refused, broken = await asyncio.gather(*asked, return_exceptions=True)
    assert done == {"n": 5}
    assert isinstance(refused, StoreUnavailable)
    assert isinstance(broken, BusError) and "see the log" in broken.text


async def test_a_worker_that_asks_nothing_more_says_so(workers: list[Worker]) -> None:
    one, other = workers
    assert one.peers.is_at_rest
    assert not other.peers.others_are_quiet()
    one.peers.say_quiet()
    await until(other.peers.others_are_quiet)
    assert not one.peers.others_are_quiet()


async def test_a_worker_knows_how_much_the_stores_of_others_hold(
    workers: list[Worker],
) -> None:
    one, other = workers
    other.own.submit(Enqueue(Ports(), [NewMessage(b"x" * 77, -1)], [1], 77))
    await until(lambda: one.peers.live_bytes(1) == 77)
    assert other.peers.live_bytes(0) == 0
