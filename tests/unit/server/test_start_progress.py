"""The signs of life of a worker that starts."""

from partibus.server.start_progress import SIGN_S, StartProgress


def test_a_step_is_said_once_a_second_at_most_and_nothing_without_one() -> None:
    said: list[float] = []
    now = [100.0]
    progress = StartProgress(lambda: said.append(now[0]), lambda: now[0])
    for tenth in range(1, 36):
        now[0] = 100.0 + tenth * SIGN_S / 10
        progress.step()
    assert said == [101.0, 102.0, 103.0]
    now[0] += 100.0
    assert len(said) == 3, "time alone is no progress"
    progress.step()
    assert len(said) == 4
