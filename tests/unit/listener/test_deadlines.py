"""Many members, one time limit, one timer."""

import asyncio

from partibus.listener.deadlines import Deadlines
from unit.listener.front import ManualClock


class Member:
    def __init__(self) -> None:
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


def deadlines(clock: ManualClock) -> Deadlines:
    return Deadlines(asyncio.get_running_loop(), clock, limit_ms=100)


async def test_members_expire_in_order_and_once() -> None:
    clock = ManualClock()
    crowd = deadlines(clock)
    first, second = Member(), Member()
    crowd.watch(first)
    clock.advance(60)
    crowd.watch(second)
    clock.advance(39)
    assert crowd.sweep() == 0
    clock.advance(1)
    assert crowd.sweep() == 1
    assert (first.expired, second.expired) == (1, 0)
    clock.advance(60)
    assert crowd.sweep() == 1
    assert (first.expired, second.expired) == (1, 1)
    assert len(crowd) == 0
    crowd.close()


async def test_watching_again_starts_the_time_anew() -> None:
    clock = ManualClock()
    crowd = deadlines(clock)
    renewed, other = Member(), Member()
    crowd.watch(renewed)
    clock.advance(50)
    crowd.watch(other)
    crowd.watch(renewed)
    clock.advance(99)
    crowd.forget(other)
    assert crowd.sweep() == 0
    clock.advance(1)
    assert crowd.sweep() == 1
    assert (renewed.expired, other.expired) == (1, 0)
    crowd.close()


async def test_the_oldest_makes_room() -> None:
    crowd = deadlines(ManualClock())
    first, second = Member(), Member()
    crowd.watch(first)
    crowd.watch(second)
    assert crowd.expire_oldest()
    assert first not in crowd and second in crowd
    assert crowd.expire_oldest()
    assert not crowd.expire_oldest()
    assert (first.expired, second.expired) == (1, 1)
    crowd.close()


async def test_the_timer_runs_only_while_somebody_is_watched() -> None:
    clock = ManualClock()
    crowd = deadlines(clock)
    assert crowd._timer is None
    member = Member()
    crowd.watch(member)
    timer = crowd._timer
    assert timer is not None
    crowd.watch(Member())
    assert crowd._timer is timer
    clock.advance(100)
    crowd._on_timer()
    assert member.expired == 1
    assert crowd._timer is None
    timer.cancel()


async def test_close_expires_everybody() -> None:
    crowd = deadlines(ManualClock())
    members = [Member() for _ in range(3)]
    for member in members:
        crowd.watch(member)
    crowd.close()
    assert [member.expired for member in members] == [1, 1, 1]
    assert crowd._timer is None
