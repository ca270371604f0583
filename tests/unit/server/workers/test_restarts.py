"""When a dead worker is started again."""

from partibus.server.workers.restarts import (
    DEATHS_MAX,
    DEATHS_WINDOW_S,
    PAUSE_S_MAX,
    PAUSE_S_MIN,
    RestartPolicy,
)


def test_the_first_death_costs_no_time() -> None:
    assert RestartPolicy().pause_s(100.0) == 0.0


def test_pauses_grow_until_it_is_given_up() -> None:
    policy = RestartPolicy()
    pauses = [policy.pause_s(100.0 + n) for n in range(DEATHS_MAX)]
    assert pauses[-1] is None
    kept = [pause for pause in pauses if pause is not None]
    assert len(kept) == DEATHS_MAX - 1
    assert kept == sorted(kept)
    assert kept[1] == PAUSE_S_MIN
    assert kept[-1] <= PAUSE_S_MAX


def test_deaths_far_apart_are_forgiven() -> None:
    policy = RestartPolicy()
    pauses = [policy.pause_s(n * (DEATHS_WINDOW_S + 1)) for n in range(3 * DEATHS_MAX)]
    assert set(pauses) == {0.0}


def test_a_spell_of_deaths_is_forgotten_after_its_window() -> None:
    policy = RestartPolicy()
    for n in range(DEATHS_MAX - 1):
        assert policy.pause_s(float(n)) is not None
    assert policy.pause_s(DEATHS_WINDOW_S + DEATHS_MAX) == 0.0
