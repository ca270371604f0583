"""The service for faults: what is refused, what is rewritten, what all workers say together."""

import pytest

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import ArgumentError, EntityNotFound, InvalidOperation
from partibus.server.config import ServeSettings
from partibus.server.fault_injection.active_faults import CLEAR_FAULTS, LIST_FAULTS, SET_FAULT
from partibus.server.fault_injection.service import FaultService
from partibus.server.operators.inspection import STORES


class FarWorker:
    """Worker 1, which answers like the near one."""

    numbers = (1,)

    def __init__(self, service: "ServiceBench") -> None:
        self._service = service

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        return self._service.answer(worker, name, payload)


class ServiceBench:
    """A service over two workers that remember what they were asked."""

    def __init__(self, *, faults: bool = True, workers: int = 2) -> None:
        self.asked: list[tuple[int, str, Payload]] = []
        self.answers: dict[tuple[int, str], Payload] = {}
        catalog = Catalog(stores=2)
        catalog.create("Orders", QueueSpec())
        control = ControlHub()
        for name in (SET_FAULT, LIST_FAULTS, CLEAR_FAULTS, STORES):
            control.register(name, lambda payload, name=name: self.answer(0, name, payload))
        if workers == 2:
            control.reach(FarWorker(self))
        self.service = FaultService(ServeSettings(stores=2, faults=faults), catalog, control)

    def answer(self, worker: int, name: str, payload: Payload) -> Payload:
        self.asked.append((worker, name, payload))
        return self.answers.get((worker, name), {"count": 1})


async def test_a_server_without_faults_says_how_to_get_them() -> None:
    service = ServiceBench(faults=False).service
    for ask in (service.set({"kind": "connections"}), service.list(), service.clear()):
        with pytest.raises(InvalidOperation, match="partibus serve --faults"):
            await ask


async def test_every_worker_is_asked_and_the_counts_are_summed() -> None:
    bench = ServiceBench()
    answer = await bench.service.set({"kind": "connections"})
    assert answer["count"] == 2
    assert [worker for worker, _, _ in bench.asked] == [0, 1]


async def test_a_store_is_down_when_the_answer_comes() -> None:
    bench = ServiceBench()
    bench.answers[0, STORES] = {"0": {"state": "down"}}
    states = iter(["up", "degraded", "down"])
    told: list[str] = []

    def stores(worker: int, name: str, payload: Payload) -> Payload:
        if (worker, name) != (1, STORES):
            return ServiceBench.answer(bench, worker, name, payload)
        told.append(next(states))
        return {"1": {"state": told[-1]}}

    bench.answer = stores  # type: ignore[method-assign]
    await bench.service.set({"kind": "store", "store": 1, "mode": "down"})
    assert told == ["up", "degraded", "down"]


async def test_an_entity_is_asked_for_by_its_own_spelling() -> None:
    bench = ServiceBench()
    await bench.service.set({"kind": "locks", "entity": "ORDERS"})
    assert bench.asked[0][2] == {"kind": "locks", "entity": "Orders"}


async def test_only_the_worker_meant_is_killed() -> None:
    bench = ServiceBench()
    await bench.service.set({"kind": "worker", "worker": 1})
    assert [(worker, name) for worker, name, _ in bench.asked] == [(1, SET_FAULT)]


@pytest.mark.parametrize(
    ("payload", "error", "words"),
    [
        ({"kind": "store", "store": 2, "mode": "down"}, EntityNotFound, "the stores are 0 to 1"),
        ({"kind": "store", "store": -1, "mode": "down"}, EntityNotFound, "no store -1"),
        ({"kind": "locks", "entity": "nope"}, EntityNotFound, "nope"),
        ({"kind": "throttle", "entity": "nope", "rate_per_s": 1}, EntityNotFound, "nope"),
        ({"kind": "worker", "worker": 7}, ArgumentError, "the workers are 0, 1"),
    ],
)
async def test_what_is_not_there_cannot_be_broken(
    payload: Payload, error: type[Exception], words: str
) -> None:
    bench = ServiceBench()
    with pytest.raises(error, match=words):
        await bench.service.set(payload)
    assert bench.asked == []


async def test_the_only_process_is_not_killed() -> None:
    bench = ServiceBench(workers=1)
    with pytest.raises(InvalidOperation, match="--workers 2"):
        await bench.service.set({"kind": "worker", "worker": 0})


async def test_a_fault_of_several_workers_is_listed_once() -> None:
    bench = ServiceBench()
    fault = {"kind": "throttle", "entity": "Orders", "left_ms": None}
    bench.answers[0, LIST_FAULTS] = {"throttle Orders": {**fault, "refused": 3}}
    bench.answers[1, LIST_FAULTS] = {
        "throttle Orders": {**fault, "refused": 4},
        "store 1": {"kind": "store", "refused": None},
    }
    listed = (await bench.service.list())["faults"]
    assert listed == [{**fault, "refused": 7}, {"kind": "store", "refused": None}]


async def test_cleared_faults_are_named_once() -> None:
    bench = ServiceBench()
    bench.answers[0, CLEAR_FAULTS] = {"cleared": ["latency"]}
    bench.answers[1, CLEAR_FAULTS] = {"cleared": ["store 1", "latency"]}
    assert await bench.service.clear() == {"cleared": ["latency", "store 1"]}
