"""The faults by name, and their end.

Owns the choice of what a fault hits and how severely. Processes that died come back after a while.
Called by the run between two steps.
"""

from random import Random

from partibus.simulation.disk import Faults, SimulatedDisk
from partibus.simulation.injecting import Injecting, hits, pick
from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.process import STARTS, SimulatedProcess
from partibus.simulation.world import Violation, World, stream


class Injector(Injecting):
    """Injects faults."""

    def __init__(
        self, world: World, net: Net, plan: Plan, processes: list[SimulatedProcess]
    ) -> None:
        super().__init__(world, net, plan)
        self._processes = processes
        self._by_name = {process.name: process for process in processes}
        self._is_over = False
        self._kinds |= hits(
            self._up,
            {
                "kill": self._kill,
                "power loss": self._power_loss,
                "failing start": self._fail_start,
                "stop": self._stop,
                "pause": self._pause,
                "bit flip": self._flip,
                "long pause": self._pause_long,
            },
        )
        self._kinds |= hits(
            self._disk,
            {
                "death at a disk call": self._die_at_call,
                "sync error": self._sync_error,
                "write error": self._write_error,
                "read error": self._read_error,
                "full disk": self._full,
                "slow disk": self._slow,
                "uncached reads": self._uncached,
                "flipped read": self._flip_read,
            },
        )
        self._kinds |= {"clock jump": self._jump, "clock drift": self._drift}
        world.on_crash = self.crashed

    def heal(self) -> None:
        """End every fault; start everything that is down."""
        self._is_over = True
        for process in self._processes:
            for disk in process.disks:
                self._heal(disk)
            if process.is_up:
                self._net.go_on(process.loop)
                if any(disk.has_flipped for disk in process.disks):
                    process.die(is_silent=False)  # the next start finds what it set aside
                    self._restart(process)
            else:
                self._restart(process)

    def _heal(self, disk: SimulatedDisk) -> None:
        disk.faults = Faults()

    # --- processes ----------------------------------------------------------------------------

    def crashed(self, name: str) -> None:
        """A process died within a callback."""
        process = self._by_name[name]
        chance = stream(self._plan.seed, f"crash/{self._world.steps}")
        self._world.note(name, "dies at a disk call")
        bad = [disk for disk in process.disks if disk.faults.dies_in_sync]
        process.die(is_silent=False, loses_power=not bad and chance.random() < 0.7)
        for disk in bad:
            disk.faults.sync_errors = chance.choice((1, 1, 3))
        self._come_back(process, chance)

    def _come_back(self, process: SimulatedProcess, chance: Random) -> None:
        delay_us = int(chance.choice((1_000, 100_000, 3_000_000)) * chance.random())
        self._world.after(delay_us, self._restart, process)

    def _restart(self, process: SimulatedProcess) -> None:
        if process.is_up:
            return
        error = process.start()
        if error is not None:
            self._world.faults.append(f"{process.name} cannot start: {error.text}")
        self._world.note(process.name, STARTS if process.is_up else "dies while it starts")
        if not process.is_up:
            self._world.after(50_000, self._restart, process)

    def _up(self, chance: Random) -> SimulatedProcess | None:
        return pick(chance, [process for process in self._processes if process.is_up])

    def _kill(self, process: SimulatedProcess, chance: Random) -> str | None:
        process.die(is_silent=False)
        self._come_back(process, chance)
        return f"{process.name} is killed"

    def _power_loss(self, process: SimulatedProcess, chance: Random) -> str | None:
        self._lose_power(process, chance)
        return f"{process.name} loses power"

    def _lose_later(self, process: SimulatedProcess, chance: Random) -> None:
        if process.is_up and not self._is_over:
            self._world.note("fault", f"{process.name} loses power")
            self._lose_power(process, chance)

    def _lose_power(self, process: SimulatedProcess, chance: Random) -> None:
        process.die(is_silent=chance.random() < 0.5, loses_power=True)
        self._come_back(process, chance)

    def _die_at_call(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.crash_in = chance.randrange(1, 25)
        return f"{disk.name}: its process dies at call {disk.faults.crash_in} from now"

    def _fail_start(self, process: SimulatedProcess, chance: Random) -> str | None:
        """What the process has not synced is in the page cache, until a sync fails there; then it
        stays readable while there is power."""
        disk = chance.choice(process.disks)
        disk.faults.dies_in_sync = True
        self._world.after(chance.randrange(5_000_000), self._lose_later, process, chance)
        return f"{process.name} will die in a sync of {disk.name}, and fail to sync at its start"

    def _stop(self, process: SimulatedProcess, chance: Random) -> str | None:
        process.stop()
        self._come_back_when_down(process, chance)
        return f"{process.name} is asked to stop"

    def _come_back_when_down(self, process: SimulatedProcess, chance: Random) -> None:
        if process.is_up:
            self._world.after(100_000, self._come_back_when_down, process, chance)
        else:
            self._come_back(process, chance)

    def _pause(self, process: SimulatedProcess, chance: Random) -> str | None:
        length_us = int(chance.choice((50_000, 2_000_000, 12_000_000)) * chance.random())
        return self._hold(process, length_us)

    def _pause_long(self, process: SimulatedProcess, chance: Random) -> str | None:
        """For longer than its peers wait for it, and mostly longer than any lock."""
        return self._hold(process, chance.randrange(6_000_000, 90_000_000))

    def _hold(self, process: SimulatedProcess, length_us: int) -> str:
        process.loop.paused_until_us = self._world.now_us + length_us
        self._net.peers_break(process.loop.paused_until_us)
        return f"{process.name} stands still for {length_us // 1000} ms"

    def _jump(self, chance: Random) -> str | None:
        process = chance.choice(self._processes)
        delta_ms = chance.randrange(-60_000, 60_000)
        for each in self._processes:  # the workers of a server are on one machine
            each.clock.jump(delta_ms)
        return f"{process.name}: the clock is set by {delta_ms} ms"

    def _drift(self, chance: Random) -> str | None:
        rate = 1 + chance.choice((-0.2, -0.01, 0.01, 0.2)) * chance.random()
        for each in self._processes:
            each.clock.drift(rate)
        return f"the clocks of the workers count {rate:.3f} seconds in each"

    def _flip(self, process: SimulatedProcess, chance: Random) -> str | None:
        process.die(is_silent=False)
        disk = chance.choice(process.disks)
        saved = disk.save()
        where = disk.flip(chance)
        error = process.start()
        process.die(is_silent=False)
        disk.put_back(saved)
        self._come_back(process, chance)
        found = "reported" if error is not None else "in nothing that a start reads"
        return f"{process.name}: a bit of {where} flips: {found}"

    # --- disks --------------------------------------------------------------------------------

    def _disk(self, chance: Random) -> SimulatedDisk | None:
        process = self._up(chance)
        return None if process is None else chance.choice(process.disks)

    def _sync_error(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.sync_errors = chance.choice((1, 1, 3))
        return f"{disk.name}: {disk.faults.sync_errors} syncs will fail"

    def _write_error(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.write_errors = chance.choice((1, 1, 3))
        return f"{disk.name}: {disk.faults.write_errors} writes will fail"

    def _read_error(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.read_errors = chance.choice((1, 2))
        return f"{disk.name}: {disk.faults.read_errors} reads will fail"

    def _flip_read(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.flips = chance.choice((1, 1, 3))
        return f"{disk.name}: {disk.faults.flips} reads will find a flipped bit"

    def _full(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.is_full = True
        self._world.after(chance.randrange(10_000, 3_000_000), self._heal, disk)
        return f"{disk.name} is full"

    def _slow(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.sync_us = chance.choice((20_000, 300_000, 3_000_000))
        self._world.after(chance.randrange(10_000, 3_000_000), self._heal, disk)
        return f"{disk.name} is slow"

    def _uncached(self, disk: SimulatedDisk, chance: Random) -> str | None:
        disk.faults.is_never_cached = not disk.faults.is_never_cached
        return f"{disk.name}: reads have to wait: {disk.faults.is_never_cached}"


def check(world: World) -> None:
    """Raise what went wrong within a callback."""
    if world.faults:
        raise Violation(world.faults[0])
