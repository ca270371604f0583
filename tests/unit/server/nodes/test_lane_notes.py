"""How far lanes have come is remembered by the cluster, and a lane that went back is refused."""

import asyncio
from functools import partial

import pytest

from partibus.control.postgres import lane_seen
from partibus.control.postgres.lane_seen import LaneEnd
from partibus.control.postgres.session import ControlSession, prepare
from partibus.domain.errors import StoreCorrupt
from partibus.server.nodes import lane_notes
from partibus.server.nodes.lane_notes import LaneNotes

pytestmark = pytest.mark.group("postgres")
LOG, OTHER = bytes(16), b"o" * 16


class FakeBroker:
    """A lane that says how far it has come."""

    def __init__(self, position: int) -> None:
        self.log_end: tuple[bytes, int] | None = (LOG, position)


def notes_of(database: str, ends: dict[int, LaneEnd]) -> LaneNotes:
    return LaneNotes(database, lambda lane: f"lane {lane}", ends.get)


async def noted(database: str) -> dict[int, LaneEnd]:
    session = ControlSession(database, "test")
    found = await session.run(lane_seen.noted)
    await session.close()
    return found


async def until_noted(database: str, position: int) -> None:
    while (await noted(database)) != {7: LaneEnd(LOG, position)}:
        pass


async def test_a_lane_that_went_back_is_refused(database: str) -> None:
    await asyncio.to_thread(prepare, database)
    ends = {0: LaneEnd(LOG, 500), 1: LaneEnd(LOG, 500)}
    notes = notes_of(database, ends)
    await notes.admit(0)
    notes.start({0: FakeBroker(500), 1: FakeBroker(501)})  # type: ignore[dict-item]
    await notes.stop()
    await notes.admit(0)
    with pytest.raises(
        StoreCorrupt, match=r"lane 1 went back in time: its log ends at 0x1f4, but it had"
    ):
        await notes.admit(1)
    ends[1] = LaneEnd(OTHER, 64)  # another log: whether it belongs here is asked elsewhere
    await notes.admit(1)
    await notes.stop()


async def test_notes_follow_the_lanes_and_never_go_back(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(prepare, database)
    monkeypatch.setattr(lane_notes, "NOTE_S", 0.0)
    broker = FakeBroker(100)
    notes = notes_of(database, {})
    notes.start({7: broker})  # type: ignore[dict-item]
    await until_noted(database, 100)
    broker.log_end = (LOG, 300)
    await until_noted(database, 300)
    await notes.stop()
    session = ControlSession(database, "test")
    await session.run(partial(lane_seen.note, ends={7: LaneEnd(LOG, 200)}))
    assert (await session.run(lane_seen.noted)) == {7: LaneEnd(LOG, 300)}
    await session.run(partial(lane_seen.note, ends={7: LaneEnd(OTHER, 200)}))
    assert (await session.run(lane_seen.noted)) == {7: LaneEnd(OTHER, 200)}
    await session.close()


async def test_without_the_database_lanes_are_served_on(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    notes = notes_of("postgresql://partibus@127.0.0.1:1/none", {})
    notes.start({0: FakeBroker(100)})  # type: ignore[dict-item]
    await notes.stop()
    assert "cannot be recorded now" in caplog.text
