"""The supervisor with workers that are no processes: they live and die as the test says."""

import asyncio

import pytest

from partibus.server.workers.restarts import DEATHS_MAX
from partibus.server.workers.supervisor import Supervisor, WorkerFailed
from partibus.server.workers.watchdog import Watchdog


class FakeProcess:
    """One life of a worker."""

    _next_pid = 1000

    def __init__(self, is_polite: bool) -> None:
        FakeProcess._next_pid += 1
        self.pid = FakeProcess._next_pid
        self._is_polite = is_polite
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[bool] = loop.create_future()
        self._ended: asyncio.Future[int] = loop.create_future()
        self._checked: asyncio.Future[bool] = loop.create_future()
        self.checks_by_hand = False
        self.was_let_go = False
        self.was_killed = False
        self.hangs = False

    async def wait_checked(self) -> bool:
        if self.checks_by_hand:
            return await asyncio.shield(self._checked)
        return True

    def check(self, is_well: bool) -> None:
        self._checked.set_result(is_well)

    def go(self) -> None:
        self.was_let_go = True

    async def wait_ready(self) -> bool:
        return await asyncio.shield(self._ready)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def is_alive(self, within_s: float) -> bool:
        """It hangs when the test says so; its answers take a turn."""
        await asyncio.sleep(0)
        return not self.hangs

    def serve(self) -> None:
        self._ready.set_result(True)

    def die(self, code: int) -> None:
        if not self._ready.done():
            self._ready.set_result(False)
        if not self._ended.done():
            self._ended.set_result(code)

    def terminate(self) -> None:
        if self._is_polite:
            self.die(0)

    def kill(self) -> None:
        self.was_killed = True
        self.die(-9)


class Stage:
    """Launches fake workers and tells when one is launched."""

    def __init__(self, *, is_polite: bool = True, watchdog: Watchdog | None = None) -> None:
        self.lives: list[tuple[int, FakeProcess]] = []
        self._is_polite = is_polite
        self._launched = asyncio.Event()
        self.pauses: list[float] = []
        self.settled = 0
        self.checks_by_hand = False
        self.supervisor = Supervisor(
            2, self._launch, lambda: 5.0, self._sleep, watchdog, self._settle
        )

    async def _launch(self, number: int) -> FakeProcess:
        process = FakeProcess(self._is_polite)
        process.checks_by_hand = self.checks_by_hand
        self.lives.append((number, process))
        self._launched.set()
        return process

    def _settle(self) -> None:
        self.settled += 1

    async def _sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)

    async def life(self, count: int) -> tuple[int, FakeProcess]:
        """The life of that number, as soon as it has begun."""
        while len(self.lives) <= count:
            self._launched.clear()
            await self._launched.wait()
        return self.lives[count]

    async def start(self) -> None:
        starting = asyncio.create_task(self.supervisor.start())
        for index in range(2):
            _, process = await self.life(index)
            process.serve()
        await starting


async def test_it_is_ready_when_all_workers_are() -> None:
    stage = Stage()
    starting = asyncio.create_task(stage.supervisor.start())
    (_, one), (_, two) = await stage.life(0), await stage.life(1)
    one.serve()
    await asyncio.sleep(0)
    assert not starting.done()
    two.serve()
    await starting
    assert sorted(number for number, _ in stage.lives) == [0, 1]
    await stage.supervisor.stop()


async def test_no_worker_goes_on_before_all_have_checked_their_stores() -> None:
    stage = Stage()
    stage.checks_by_hand = True
    starting = asyncio.create_task(stage.supervisor.start())
    (_, one), (_, two) = await stage.life(0), await stage.life(1)
    one.check(True)
    await asyncio.sleep(0)
    assert (stage.settled, one.was_let_go, two.was_let_go) == (0, False, False)
    two.check(True)
    one.serve()
    two.serve()
    await starting
    assert (stage.settled, one.was_let_go, two.was_let_go) == (1, True, True)
    await stage.supervisor.stop()


async def test_nothing_is_settled_when_a_store_is_refused() -> None:
    stage = Stage()
    stage.checks_by_hand = True
    starting = asyncio.create_task(stage.supervisor.start())
    (_, one), (_, two) = await stage.life(0), await stage.life(1)
    one.check(True)
    two.check(False)
    two.die(3)
    with pytest.raises(WorkerFailed) as failure:
        await starting
    assert (failure.value.exit_code, stage.settled, one.was_let_go) == (3, 0, False)
    await stage.supervisor.stop()


async def test_a_worker_that_cannot_start_ends_the_server_with_its_exit_code() -> None:
    stage = Stage()
    starting = asyncio.create_task(stage.supervisor.start())
    (_, one), (_, two) = await stage.life(0), await stage.life(1)
    one.serve()
    two.die(3)
    with pytest.raises(WorkerFailed) as failure:
        await starting
    assert failure.value.exit_code == 3
    await stage.supervisor.stop()
    assert await one.wait() == 0


async def test_a_worker_that_dies_is_started_again_and_only_that_one() -> None:
    stage = Stage()
    await stage.start()
    watching = asyncio.create_task(stage.supervisor.watch())
    number, process = stage.lives[1]
    process.die(-9)
    again, next_process = await stage.life(2)
    next_process.serve()
    assert again == number
    assert stage.pauses == [0.0]
    assert not watching.done()
    await stage.supervisor.stop()
    await watching
    assert [await life.wait() for _, life in stage.lives] == [0, -9, 0]


async def test_a_worker_that_keeps_dying_is_given_up_loudly() -> None:
    stage = Stage()
    await stage.start()
    watching = asyncio.create_task(stage.supervisor.watch())
    stage.lives[0][1].die(70)
    for index in range(2, DEATHS_MAX + 1):
        _, process = await stage.life(index)
        process.die(70)
    with pytest.raises(
        WorkerFailed, match=f"worker 0 ended {DEATHS_MAX} times.*code 70"
    ) as failure:
        await watching
    assert failure.value.exit_code == 1
    assert len(stage.lives) == DEATHS_MAX + 1
    await stage.supervisor.stop()
    assert await stage.lives[1][1].wait() == 0, "the other worker is stopped too"


async def test_a_worker_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partibus.server.workers.supervisor.STOP_S_MAX", 0.0)
    stage = Stage(is_polite=False)
    await stage.start()
    await stage.supervisor.stop()
    assert all(process.was_killed for _, process in stage.lives)


async def test_nothing_is_started_again_once_it_stops() -> None:
    stage = Stage()
    await stage.start()
    watching = asyncio.create_task(stage.supervisor.watch())
    await asyncio.sleep(0)
    await stage.supervisor.stop()
    await watching
    assert len(stage.lives) == 2


async def test_a_worker_that_hangs_is_ended_and_started_again() -> None:
    stage = Stage(watchdog=Watchdog(3, sleep=_turn))
    await stage.start()
    watching = asyncio.create_task(stage.supervisor.watch())
    number, process = stage.lives[1]
    process.hangs = True
    again, next_process = await stage.life(2)
    assert process.was_killed
    assert again == number
    assert not stage.lives[0][1].was_killed
    next_process.serve()
    assert not watching.done()
    await stage.supervisor.stop()


async def test_a_worker_that_is_asked_to_stop_is_given_its_time() -> None:
    stage = Stage(is_polite=False, watchdog=Watchdog(3, sleep=_turn))
    await stage.start()
    for _, process in stage.lives:
        process.hangs = True
    stopping = asyncio.create_task(stage.supervisor.stop())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(process.was_killed for _, process in stage.lives)
    for _, process in stage.lives:
        process.die(0)
    await stopping


async def _turn(pause_s: float) -> None:
    await asyncio.sleep(0)
