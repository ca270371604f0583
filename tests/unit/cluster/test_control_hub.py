"""Questions to this process and to others."""

import pytest

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.errors import BusError, NotImplementedHere, StoreUnavailable


class Far:
    """Two other workers, of which one does not answer."""

    numbers = (0, 2)

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        if worker == 2:
            raise StoreUnavailable
        return {"worker": worker, "name": name, **payload}


async def test_a_single_process_answers_itself() -> None:
    hub = ControlHub()
    hub.register("double", lambda payload: {"n": payload["n"] * 2})
    assert await hub.ask(0, "double", {"n": 4}) == {"n": 8}
    assert await hub.ask_all("double", {"n": 1}) == {0: {"n": 2}}
    assert hub.workers == [0]


async def test_what_nobody_answers_is_an_error() -> None:
    hub = ControlHub()
    with pytest.raises(NotImplementedHere, match="'weather'"):
        await hub.ask(0, "weather", {})
    with pytest.raises(NotImplementedHere, match="no worker 5"):
        await hub.ask(5, "weather", {})


async def test_all_workers_are_asked_and_those_that_do_not_answer_left_out() -> None:
    hub = ControlHub(1)
    hub.reach(Far())
    hub.register("who", lambda payload: {"worker": 1})
    assert hub.workers == [0, 1, 2]
    assert await hub.ask_all("who", {}) == {0: {"worker": 0, "name": "who"}, 1: {"worker": 1}}
    with pytest.raises(BusError):
        await hub.ask(2, "who", {})


async def test_a_handler_with_a_fault_is_no_silence() -> None:
    hub = ControlHub()
    hub.register("broken", lambda payload: {"n": payload["absent"]})
    with pytest.raises(KeyError):
        await hub.ask_all("broken", {})


async def test_a_handler_may_answer_later() -> None:
    async def later(payload: Payload) -> Payload:
        return {"n": payload["n"] + 1}

    hub = ControlHub()
    hub.register("next", later)
    assert await hub.ask(0, "next", {"n": 1}) == {"n": 2}
