"""Machines on a network of their own, whose packets can be made to vanish.

Owns a namespace for the test itself, a bridge in it, and a namespace for each machine. A cut is a
neighbour with the address of nobody: what is sent to it is lost without a word, as behind a broken
switch, and no end is told. Nothing of it is visible outside, and the kernel takes it away with the
processes that hold it. Needs root and iproute2: tests that use it are of the group "network".
"""

import ctypes
import os
import subprocess
from types import TracebackType
from typing import Final, Self

PREFIX: Final = "10.77.0."
BRIDGE: Final = "br0"
WIRE: Final = "wire"
"""What each machine calls its end."""
_CLONE_NEWNET: Final = 0x40000000
_NOWHERE: Final = "02:00:00:00:ff:ff"
_libc: Final = ctypes.CDLL(None, use_errno=True)


class End:
    """One that has an address on the network."""

    def __init__(self, number: int, command: tuple[str, ...] = ()) -> None:
        self.number = number
        self.address = f"{PREFIX}{number}"
        self.link_address = f"02:00:00:00:00:{number:02x}"
        self.command = command
        """What a program is started with to run on it."""

    def run(self, *command: str) -> None:
        """Run a program on it to its end."""
        subprocess.run([*self.command, *command], check=True)

    def know(self, other: "End", link_address: str) -> None:
        """Send what is meant for the other one to this address of the link."""
        device = BRIDGE if not self.command else WIRE
        entry = [other.address, "lladdr", link_address, "dev", device, "nud", "permanent"]
        self.run("ip", "neigh", "replace", *entry)


class Machine(End):
    """A namespace with one link to the bridge; a process that waits holds it."""

    def __init__(self, number: int) -> None:
        holds = "ip link set lo up && echo && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", holds], stdout=subprocess.PIPE
        )
        super().__init__(number, ("nsenter", f"--net=/proc/{self._holder.pid}/ns/net"))
        assert self._holder.stdout is not None
        try:
            assert self._holder.stdout.readline() == b"\n", "a namespace could not be made"
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        port = f"port{self.number}"
        pair = ["peer", "name", WIRE, "address", self.link_address]
        _ip("link", "add", port, "type", "veth", *pair, "netns", str(self._holder.pid))
        _ip("link", "set", port, "master", BRIDGE, "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", WIRE)
        self.run("ip", "link", "set", WIRE, "up")

    def close(self) -> None:
        """Take it off the network."""
        self._holder.kill()
        self._holder.communicate()


class Network:
    """The machines, and the test as one more end of the network."""

    __test__ = False

    def __init__(self) -> None:
        self.test = End(1)
        self.machines: list[Machine] = []
        self._before = -1

    def __enter__(self) -> Self:
        self._before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _check(_libc.unshare(_CLONE_NEWNET))
            self._make()
        except BaseException:
            self._leave()
            raise
        return self

    def _make(self) -> None:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", BRIDGE, "address", self.test.link_address, "type", "bridge")
        _ip("address", "add", f"{self.test.address}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def _leave(self) -> None:
        """Whatever happens, the tests after this one are where they were before."""
        if self._before >= 0:
            _check(_libc.setns(self._before, _CLONE_NEWNET))
            os.close(self._before)
            self._before = -1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in self.machines:
            machine.close()
        self._leave()

    def machine(self) -> Machine:
        """One more."""
        made = Machine(len(self.machines) + 2)
        self.machines.append(made)
        for other in (self.test, *self.machines[:-1]):
            self.join(made, other)
        return made

    def cut(self, one: End, *others: End) -> None:
        """From now on nothing gets through between these, in either direction."""
        for other in others:
            one.know(other, _NOWHERE)
            other.know(one, _NOWHERE)

    def join(self, one: End, *others: End) -> None:
        """The way between these is open again."""
        for other in others:
            one.know(other, other.link_address)
            other.know(one, one.link_address)


def can_be_made() -> bool:
    """Whether this machine lets a test make one."""
    try:
        with Network() as network:
            network.machine()
    except (OSError, AssertionError, subprocess.CalledProcessError):
        return False
    return True


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _check(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
