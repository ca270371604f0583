"""When a worker counts as hanging."""

import pytest

from partibus.server.workers.watchdog import PING_S, Watchdog


class Scripted:
    """A worker that answers as the test has written; a missing answer takes its full time."""

    pid = 7

    def __init__(self, answers: str) -> None:
        self.answers = list(answers)
        self.was_killed = False

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
