"""A server whose wall clock is set while it runs: nothing lasts longer, nothing ends before."""

import asyncio
import time
from pathlib import Path

import pytest

from adversity.letters import letter
from adversity.load import LoadClient, load_client
from adversity.victim import Victim
from adversity.waiting import wait_until_async
from support.wall_clock import WallClock

pytestmark = [pytest.mark.group("wall-clock"), pytest.mark.timeout(180)]

HOUR_S = 3600
LIMIT_S = 60
"""Far more than anything here takes, far less than the clock is set by."""
NAMESPACE = """
[[queue]]
name = "short"
lock_duration = "PT5S"

[[queue]]
name = "long"
lock_duration = "PT5M"

[[queue]]
name = "later"
"""


@pytest.fixture
def wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    clock = WallClock(tmp_path)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    return clock


async def send(client: LoadClient, queue: str, due_ms: int = 0) -> None:
    pipeline = await client.pipeline(queue)
    await pipeline.post([(queue, letter(queue, 100, due_ms=due_ms), 0)])
    assert pipeline.refusals == []


async def meet_a_step(server: Victim, clock: WallClock, seconds: int) -> None:
    async with asyncio.timeout(LIMIT_S), load_client(server) as client:
        for queue in ("short", "long"):
            await send(client, queue)
        await send(client, "later", round(time.time() * 1000) + HOUR_S * 1000)
        short, long = [await client.inbox(queue, credit=10) for queue in ("short", "long")]
        ((first, _),), ((_, held),) = await short.some(), await long.some()
        clock.set_ahead(seconds)
        await wait_until_async(lambda: "the system clock was set" in server.log_text(), "seen")
        await long.settle([held])  # its lock stands, on whatever side of its end the clock is
        ((again, _),) = await short.some()  # its lock lapses in time that passed
        assert (first.name, again.name) == ("short", "short")
        if seconds > 0:
            later = await client.inbox("later", credit=10)
            assert [one.name for one, _ in await later.some()] == ["later"]


@pytest.mark.parametrize("hours", [2, -2])
def test_locks_and_scheduled_messages_meet_a_clock_that_is_set(
    tmp_path: Path, wall_clock: WallClock, hours: int
) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with Victim(tmp_path, config) as server:
        asyncio.run(meet_a_step(server, wall_clock, hours * HOUR_S))
        assert server.stop() == 0
