"""When a worker counts as hanging."""

import pytest

from partibus.server.workers.watchdog import (
    PING_S,
    START_LIMITS,
    SUPERVISOR_SILENT_S,
    SupervisorHeard,
    Watchdog,
)


class Scripted:
    """A worker that answers as the test has written; a missing answer takes its full time."""

    pid = 7

    def __init__(self, answers: str) -> None:
        self.answers = list(answers)
        self.was_killed = False
        self.signs_of_life = 0

    async def is_alive(self, within_s: float) -> bool:
        assert within_s == PING_S
        return self.answers.pop(0) == "y"

    def kill(self) -> None:
        self.was_killed = True


async def _no_pause(pause_s: float) -> None:
    pass


@pytest.mark.parametrize("answers", ["nnnnn", "ynynnynnnnynnnnn"])
async def test_only_questions_in_a_row_without_an_answer_count(
    answers: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Scripted(answers)
    await Watchdog(5, sleep=_no_pause).watch(3, worker)
    assert worker.was_killed
    assert worker.answers == []
    assert "worker 3 (process 7) has not answered for 5 s" in caplog.text


async def test_nobody_is_watched_without_a_limit() -> None:
    worker = Scripted("")
    await Watchdog(0, sleep=_no_pause).watch(3, worker)
    assert not worker.was_killed


async def test_a_start_may_take_as_long_as_it_gets_on(caplog: pytest.LogCaptureFixture) -> None:
    """A sign just before the limit, several times over, and then none."""
    worker = Scripted("")
    seconds = 0

    async def second(pause_s: float) -> None:
        nonlocal seconds
        seconds += 1
        if seconds % (5 * START_LIMITS) == 0 and seconds < 1000:
            worker.signs_of_life += 1

    await Watchdog(5, sleep=second).watch_start(3, worker)
    assert worker.was_killed
    assert seconds == 960 + 5 * START_LIMITS
    assert "worker 3 (process 7) has made no progress for 60 s while starting" in caplog.text


def test_a_supervisor_that_asks_no_more_hangs() -> None:
    now_s = 100.0
    supervisor = SupervisorHeard(lambda: now_s)
    assert supervisor.is_at_work(), "it may watch nobody"
    now_s += SUPERVISOR_SILENT_S
    assert supervisor.is_at_work()
    supervisor.asks()
    assert supervisor.is_at_work()
    now_s += SUPERVISOR_SILENT_S
    assert not supervisor.is_at_work()
    supervisor.asks()
    assert supervisor.is_at_work()
