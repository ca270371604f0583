"""What the world promises to the bus: a wire like TCP, a disk like any, a clock that is wrong."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from partibus.simulation.clock import SimulatedClock
from partibus.simulation.disk import SimulatedDisk
from partibus.simulation.event_loop import make_loop
from partibus.simulation.net import Connection, Net
from partibus.simulation.threads import Threads
from partibus.simulation.world import START_MS, World

FILE = Path("/simulated/file")


@pytest.fixture
def world() -> World:
    return World(7)


class Listener(asyncio.Protocol):
    """Keeps what comes."""

    def __init__(self) -> None:
        self.heard = b""
        self.is_over = False

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True


def run(world: World) -> None:
    while not world.is_over:
        world.step()
    assert not world.faults


def connected(world: World) -> tuple[Net, Connection, Listener]:
    net, listener = Net(world), Listener()
    connection = Connection(net, "b", make_loop(world, net, "a"), make_loop(world, net, "b"))
    connection.ends[0].begin(Listener())
    connection.ends[1].begin(listener)
    return net, connection, listener


def test_bytes_arrive_in_their_order_when_a_connection_stalls(world: World) -> None:
    _, connection, listener = connected(world)
    near = connection.ends[0]
    near.write(b"written before, ")
    connection.stalled_until_us = 5_000
    near.write(b"written meanwhile")
    run(world)
    assert listener.heard == b"written before, written meanwhile"
    assert world.now_us >= 5_000


def test_a_connection_that_broke_before_it_was_taken_ends_at_once(world: World) -> None:
    net = Net(world)
    connection = Connection(net, "b", make_loop(world, net, "a"), make_loop(world, net, "b"))
    connection.break_off(is_silent=False)
    run(world)
    listener = Listener()
    connection.ends[1].begin(listener)
    run(world)
    assert listener.is_over


def test_a_process_that_stands_still_hears_nothing_until_it_goes_on(world: World) -> None:
    net, connection, listener = connected(world)
    far = connection.ends[1].loop
    far.paused_until_us = 50_000_000
    connection.ends[0].write(b"hello")
    world.after(2_000_000, net.go_on, far)
    while world.now_us < 2_000_000:
        assert not listener.heard
        world.step()
    assert listener.heard == b"hello"


@pytest.fixture
def disk(world: World) -> SimulatedDisk:
    return SimulatedDisk("disk", Threads(world), Random(1))


def durable_file(disk: SimulatedDisk, data: bytes) -> int:
    fd = disk.open(FILE, writable=True, create=True)
    disk.write(fd, [data], 0)
    disk.sync(fd)
    disk.sync_directory(FILE.parent)
    return fd


def after_power_loss(disk: SimulatedDisk, length: int) -> bytes:
    disk.power_loss()
    return disk.read(disk.open(FILE, writable=False), length, 0)


def test_a_failed_sync_drops_bytes_that_are_still_read(disk: SimulatedDisk) -> None:
    fd = durable_file(disk, b"safe")
    disk.allocate(fd, 8)
    disk.write(fd, [b"lost"], 4)
    disk.faults.sync_errors = 1
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(fd)
    assert disk.read(fd, 8, 0) == b"safelost"
    disk.sync(fd)
    assert after_power_loss(disk, 8) == b"safe\0\0\0\0"  # its length was in the journal


def test_what_is_written_again_after_a_failed_sync_is_kept(disk: SimulatedDisk) -> None:
    fd = durable_file(disk, b"safe")
    disk.write(fd, [b"back"], 4)
    disk.faults.sync_errors = 1
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(fd)
    disk.write(fd, [b"back"], 4)
    disk.sync(fd)
    assert after_power_loss(disk, 8) == b"safeback"


def test_a_read_finds_a_flipped_bit_once(disk: SimulatedDisk) -> None:
    fd = durable_file(disk, b"as it was written")
    disk.faults.flips = 1
    found = disk.read(fd, 17, 0)
    assert sum((a ^ b).bit_count() for a, b in zip(found, b"as it was written", strict=True)) == 1
    assert disk.read(fd, 17, 0) == b"as it was written"


def test_a_clock_drifts_from_the_moment_on_when_it_begins_to(world: World) -> None:
    clock = SimulatedClock(world)
    world.now_us = 10_000_000
    clock.drift(1.5)
    assert clock.monotonic_ms() == 10_000
    world.now_us = 20_000_000
    assert clock.monotonic_ms() == 25_000
    clock.drift(0.5)
    world.now_us = 30_000_000
    assert clock.monotonic_ms() == 30_000
    assert clock.now_ms() == START_MS + 30_000
