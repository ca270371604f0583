"""What a look at a dead-letter queue proves: a message that is not there was moved, by us or by
others, unless its fragment does not answer."""

from typing import Any

import pytest

from pyspark_servicebus.pipelines.deadletters.carrying_out import EntityWork
from pyspark_servicebus.pipelines.deadletters.rules import Rule

FAR = 1 << 48


class Looking(EntityWork):
    """Sees one message."""

    async def _numbers(self, bus: Any) -> set[int]:
        return {1}


def work(up: set[int] | None) -> Looking:
    made = Looking(
        entity="orders",
        wanted={1: 0, 2: 0, 3: 0, FAR: 0, FAR + 1: 0},
        rules=(Rule(name="all", action="purge"),),
        goals={},
        wait_s=0,
        retry_s=0,
        fragments_up=None if up is None else lambda: up,
    )
    made._doubtful = {2, FAR}
    return made


@pytest.mark.parametrize("up", [None, {0, 1}])
async def test_what_is_gone_was_moved(up: set[int] | None) -> None:
    looking = work(up)
    await looking._look(None)  # type: ignore[arg-type]
    assert (looking.outcome.done[0], looking.outcome.gone[0]) == (2, 2)
    assert looking.wanted == {1: 0}
    assert looking._doubtful == set()


async def test_a_fragment_that_is_down_proves_nothing() -> None:
    looking = work({0})
    await looking._look(None)  # type: ignore[arg-type]
    assert (looking.outcome.done[0], looking.outcome.gone[0]) == (1, 1)
    assert set(looking.wanted) == {1, FAR, FAR + 1}
    assert looking._doubtful == {FAR}
