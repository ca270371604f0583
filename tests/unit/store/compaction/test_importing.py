"""What one store held becomes another, at the same positions, whatever keeps it."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.store.compaction.importing import DirectoryImport, LaneImport, Snapshot, stretches
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Ref, Store
from partibus.store.postgres.importing import DatabaseImport, erase_lane, lanes_there
from partibus.store.postgres.store import PostgresStore
from partibus.store.record import BODY_CRC_BYTES, Record

SEGMENT = 1 << 14
STRETCH = 20_000
IN_DATABASE = pytest.param("database", marks=pytest.mark.group("postgres"))


class Place:
    """A directory or a lane, as the source or the target of a copy."""

    def __init__(self, kind: str, directory: Path, lanes: Any, pump: Any) -> None:
        self._kind = kind
        self._directory = directory
        self._lanes = lanes
        self._pump = pump
        self._open: list[Store] = []

    def store(self) -> Store:
        made: Store
        if self._kind == "directory":
            made = SegmentStore(self._directory, notify=self._pump.notify, segment_bytes=SEGMENT)
        else:
            made = self._lanes.make(self._pump.notify, recent_bytes=1, segment_bytes=SEGMENT)
        self._open.append(made)
        return made

    def fill(self) -> LaneImport:
        if self._kind == "directory":
            self._directory.mkdir()
            return DirectoryImport(self._directory)
        return DatabaseImport(self._lanes.dsn, self._lanes.lane, "copy 1")

    def close(self) -> None:
        for store in self._open:
            store.close()


@pytest.fixture
def places(tmp_path: Path, pump: Any, request: pytest.FixtureRequest) -> Any:
    made: list[Place] = []

    def make(kind: str) -> Place:
        lanes = request.getfixturevalue("new_lanes")() if kind == "database" else None
        made.append(Place(kind, tmp_path / f"place-{len(made)}", lanes, pump))
        return made[-1]

    yield make
    for place in made:
        place.close()


def filled(store: Store, pump: Any) -> dict[Ref, bytes]:
    """Some segments of bodies, of which every third is needed."""
    dice = random.Random(7)
    assert list(store.open().records) == []
    needed: dict[Ref, bytes] = {}
    for number in range(120):
        records = [Record(1, 1, b"meta", dice.randbytes(dice.randrange(1, 2000))) for _ in "ab"]
        assert pump.append(store, records) is None
        if number % 3 == 0:
            needed |= {(r.position, len(r.body)): r.body for r in records[: 1 + number % 2]}
    return needed


def write(target: LaneImport, needed: dict[Ref, bytes], snapshot: Snapshot) -> int:
    """Answers how many stretches there were."""
    plan = list(stretches(needed, snapshot.position, STRETCH))
    for stretch in plan:
        target.write(stretch, ((ref[0], needed[ref]) for ref in stretch.refs))
    target.finish(snapshot)
    target.close()
    return len(plan)


def read_all(store: Store, pump: Any, needed: dict[Ref, bytes]) -> None:
    assert pump.read(store, list(needed)) == list(needed.values())


@pytest.mark.parametrize("origin", ["directory", IN_DATABASE])
@pytest.mark.parametrize("target", ["directory", IN_DATABASE])
def test_bodies_keep_their_positions(
    origin: str, target: str, places: Callable[[str], Place], pump: Any
) -> None:
    source = places(origin).store()
    needed = filled(source, pump)
    end = source.position
    source.close()
    place = places(target)
    states, pages = (
        {1: b"one", 2: b"two"},
        {3: partial(list, [b"a page"]), 9: partial(list, [b"b"])},
    )
    assert write(place.fill(), needed, Snapshot(end, states, pages)) > 2

    store = place.store()
    found = store.open()
    assert found.states == states
    assert (found.pages.read(3), found.pages.read(9), found.pages.last) == (b"a page", b"b", 9)
    assert list(found.records) == []
    for position, length in needed:
        store.retain(position, length)
    read_all(store, pump, needed)
    go_on(store, place, pump, needed, end)


def go_on(store: Store, place: Place, pump: Any, needed: dict[Ref, bytes], end: int) -> None:
    """The log goes on behind all that was copied; space of it comes back, and the rest stays."""
    record = Record(1, 1, b"meta", b"new")
    assert pump.append(store, [record]) is None
    assert record.position > end
    for ref in list(needed)[::2]:
        store.release(*ref)
        del needed[ref]
    assert pump.checkpoint(store, {1: b"later"}) is None
    steps: list[object] = []
    while store.compact(steps.append):
        pump.until(lambda: bool(steps))
        assert steps.pop() is None
    read_all(store, pump, needed)
    store.close()
    again = place.store()
    assert again.open().states == {1: b"later"}
    for position, length in needed:
        again.retain(position, length)
    read_all(again, pump, needed)


def test_a_directory_that_was_not_finished_is_no_store(
    places: Callable[[str], Place], pump: Any
) -> None:
    source = places("directory").store()
    needed = filled(source, pump)
    place = places("directory")
    target = place.fill()
    for stretch in stretches(needed, source.position, STRETCH):
        target.write(stretch, ((ref[0], needed[ref]) for ref in stretch.refs))
    target.close()
    with pytest.raises(StoreCorrupt):
        place.store().open()


@pytest.mark.group("postgres")
def test_a_lane_that_was_not_finished_is_empty_and_can_be_erased(
    places: Callable[[str], Place], pump: Any, new_lanes: Any
) -> None:
    source = places("directory").store()
    needed = filled(source, pump)
    lanes = new_lanes()
    target = DatabaseImport(lanes.dsn, lanes.lane, "copy 1")
    for stretch in stretches(needed, source.position, STRETCH):
        target.write(stretch, ((ref[0], needed[ref]) for ref in stretch.refs))
    target.close()
    assert tables(lanes) != []
    assert lanes_there(lanes.dsn, [lanes.lane]) == {lanes.lane: "copy 1"}
    erase_lane(lanes.dsn, lanes.lane)
    assert tables(lanes) == []
    assert lanes_there(lanes.dsn, [lanes.lane]) == {}


@pytest.mark.group("postgres")
def test_only_an_empty_lane_is_filled(pump: Any, new_lanes: Any) -> None:
    lanes = new_lanes()
    store: PostgresStore = lanes.make(pump.notify)
    filled(store, pump)
    store.close()
    with pytest.raises(ConfigError, match="is not empty"):
        DatabaseImport(lanes.dsn, lanes.lane, "copy 1")


def tables(lanes: Any) -> list[Any]:
    with psycopg.connect(lanes.dsn) as connection:
        pattern = rf"entry\_{lanes.lane}\_%"
        query = "SELECT tablename FROM pg_tables WHERE tablename LIKE %s"
        return connection.execute(query, (pattern,)).fetchall()


@st.composite
def bodies(draw: st.DrawFn) -> list[Ref]:
    """Places of bodies as a log has them, some of them named twice."""
    refs: list[Ref] = []
    position = 64
    for gap, length in draw(st.lists(st.tuples(st.integers(4, 500), st.integers(0, 300)))):
        refs.append((position + gap, length))
        position += gap + length
    again = draw(st.lists(st.sampled_from(refs))) if refs else []
    return draw(st.permutations(refs + again))


@given(bodies(), st.integers(1, 2000))
def test_every_body_is_in_one_stretch(refs: list[Ref], most: int) -> None:
    end = max((sum(ref) for ref in refs), default=64) + 1
    found = list(stretches(refs, end, most))
    placed = [ref for stretch in found for ref in stretch.refs]
    assert placed == sorted({ref for ref in refs if ref[1]})
    for stretch, after in zip(found, [*found, None][1:], strict=True):
        assert stretch.end == (after.base if after is not None else end)
        for position, length in stretch.refs:
            assert stretch.base <= position - BODY_CRC_BYTES
            assert position + length <= stretch.end
        assert sum(length for _, length in stretch.refs[:-1]) < most
