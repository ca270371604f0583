"""A lane whose writer hangs goes to the next one, and the writer finds out."""

import asyncio

import pytest

from partibus.domain.errors import BusError
from partibus.server.nodes.takeover import free_lane
from partibus.server.scheduler import LoopScheduler
from partibus.store.interface import StoreState
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import Record

pytestmark = pytest.mark.group("postgres")


async def test_a_lane_is_taken_from_a_writer_that_still_holds_its_lock(database: str) -> None:
    scheduler = LoopScheduler(asyncio.get_running_loop())
    old, new = (PostgresStore(database, 3, notify=scheduler.call_from_thread) for _ in range(2))
    list((await asyncio.to_thread(old.open)).records)
    await asyncio.to_thread(free_lane, database, 3)
    list((await asyncio.to_thread(new.open)).records)
    assert new.epoch == old.epoch + 1
    told: asyncio.Future[BusError | None] = asyncio.get_running_loop().create_future()
    old.append([Record(1, 1, b"late")], told.set_result)
    assert await told is not None and old.state is StoreState.DOWN
    for store in (old, new):
        await asyncio.to_thread(store.close)


async def test_other_lanes_are_left_alone(database: str) -> None:
    scheduler = LoopScheduler(asyncio.get_running_loop())
    store = PostgresStore(database, 4, notify=scheduler.call_from_thread)
    list((await asyncio.to_thread(store.open)).records)
    await asyncio.to_thread(free_lane, database, 3)
    told: asyncio.Future[BusError | None] = asyncio.get_running_loop().create_future()
    store.append([Record(1, 1, b"kept")], told.set_result)
    assert await told is None
    await asyncio.to_thread(store.close)
