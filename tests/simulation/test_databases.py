"""What a simulated database promises to the stores above it, and what it does not."""

from collections.abc import Iterator

import psycopg
import pytest

from partibus.simulation.cluster.database import DatabaseConnection
from partibus.simulation.cluster.lane import LaneServer, SimulatedLane
from partibus.simulation.cluster.lane_tables import LaneContent
from partibus.simulation.threads import Threads
from partibus.simulation.world import World
from partibus.store.lane.commit import Fenced
from partibus.store.postgres.lane import ROW_LOCK_MS

DSN = "postgresql://database"


@pytest.fixture
def server() -> LaneServer:
    world = World(1)
    threads = Threads(world)
    threads.host = "node"
    return LaneServer(world, threads, "database")


@pytest.fixture
def connection(server: LaneServer) -> DatabaseConnection:
    return server.connect("node", "append-0")


@pytest.fixture
def content(server: LaneServer, connection: DatabaseConnection) -> Iterator[LaneContent]:
    found = server.lane(0)
    found.raise_epoch(connection, b"log", 64)
    found.add_segment(1, 64)
    yield found


def test_a_row_goes_in_with_the_epoch_and_the_position_alone(content: LaneContent) -> None:
    assert content.append(1, 64, 68, 64, b"abcd") == 1
    assert content.append(1, 64, 68, 64, b"abcd") == 0
    assert content.append(0, 64, 72, 68, b"efgh") == 0
    assert content.append(1, 64, 72, 68, b"efgh") == 1
    assert content.ends == {68: 1, 72: 1}


def test_a_statement_that_is_late_finds_another_epoch(
    server: LaneServer, connection: DatabaseConnection, content: LaneContent
) -> None:
    server.hold("node", 5_000_000)
    late = connection.send(lambda: content.append(1, 64, 68, 64, b"late"), changes=True)
    other = server.connect("other", "append-0")
    other.call(lambda: content.raise_epoch(other, b"", 0))
    connection.wait(late)
    assert late.take() == 0
    assert server.world.now_us >= 5_000_000 and content.tail == 64


def test_a_lost_answer_is_an_error_after_the_deed(
    server: LaneServer, connection: DatabaseConnection, content: LaneContent
) -> None:
    server.lost_answers = 1
    with pytest.raises(psycopg.OperationalError, match="lost"):
        connection.call(lambda: content.append(1, 64, 68, 64, b"done"), changes=True)
    assert content.tail == 68
    assert connection.closed


def test_an_outage_keeps_what_was_carried_out(
    server: LaneServer, connection: DatabaseConnection, content: LaneContent
) -> None:
    connection.call(lambda: content.append(1, 64, 68, 64, b"done"), changes=True)
    never = connection.send(lambda: content.append(1, 64, 72, 68, b"lost"), changes=True)
    server.go_down(1_000_000)
    connection.wait(never)
    with pytest.raises(psycopg.OperationalError):
        never.take()
    assert content.tail == 68
    with pytest.raises(psycopg.OperationalError):
        server.connect("node", "append-0")
    server.world.now_us += 1_000_000
    assert server.connect("node", "append-0").call(lambda: content.tail) == 68


def test_a_takeover_waits_for_a_checkpoint_and_then_ends_it(
    server: LaneServer, content: LaneContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partibus.store.postgres.lane.migrate", lambda _: None)
    first, second = (
        SimulatedLane({DSN: server}, DSN, 0, name, takes_over=False) for name in ("one", "two")
    )
    first.epoch = 1
    keeping = first.connect("checkpoint")
    with pytest.raises(psycopg.OperationalError), first.checkpoint(keeping, 64) as writer:
        began_us = server.world.now_us
        row = second.take_over(second.connect("append"), b"", 0)
        assert (row.epoch, second.epoch) == (2, 2)
        assert server.world.now_us - began_us >= ROW_LOCK_MS * 1000
        writer.put_states({1: b"late"})
    assert content.states == {}
    with pytest.raises(Fenced):
        first.check_epoch(first.connect("append"))
