"""The place of a process among others: what `cluster.peers` must know of them.

Owns the interface of such a group and its form for the workers of one server: the group's id, the
catalog's file, the TLS directory, and the directory with the sockets over which they reach
each other. The supervisor makes it once and hands it to every worker; it holds no secret and never
changes. The nodes of a cluster come and go: they are `cluster.node_group`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from partibus.cluster.transport import PeerTransport, UnixTransport
from partibus.control.placement import worker_of


class PeerGroup(Protocol):
    """The processes of one bus, as one of them sees the others."""

    @property
    def worker(self) -> int:
        """The number of this process."""
        ...

    @property
    def kind(self) -> str:
        """What one of them is called."""
        ...

    @property
    def group_id(self) -> int | str:
        """What all of them share and strangers do not have."""
        ...

    @property
    def others(self) -> list[int]:
        """The numbers of the other processes, as of now."""
        ...

    @property
    def transport(self) -> PeerTransport:
        """The way to them."""
        ...

    def owner_of(self, store: int) -> int | None:
        """Who is the one writer of a store; None when nobody is known to be."""
        ...

    def is_member(self, number: int, certificate: dict[str, object] | None) -> bool:
        """Whether a process that says that it has this number is one of the others."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Have this called when one came or went."""
        ...


@dataclass(slots=True, frozen=True, kw_only=True)
class Membership:
    """One worker of several."""

    worker: int
    workers: int
    group_id: int
    """32 random bits, drawn at each start: workers of an earlier start are refused."""
    runtime: Path
    catalog: Path
    tls: Path
    working: Path | None = None
    """Where an encrypted catalog is worked on, in memory."""

    @property
    def kind(self) -> str:
        """What errors and the log call one of them."""
        return "worker"

    @property
    def others(self) -> list[int]:
        """The numbers of the other workers."""
        return [number for number in range(self.workers) if number != self.worker]

    def owner_of(self, store: int) -> int:
        """The worker that is the one writer of a store."""
        return worker_of(store, self.workers)

    def owns(self, store: int) -> bool:
        """Whether this worker is that one."""
        return self.owner_of(store) == self.worker

    @property
    def transport(self) -> PeerTransport:
        """Sockets of this machine."""
        return UnixTransport(self.worker, self.socket_path)

    def is_member(self, number: int, certificate: dict[str, object] | None) -> bool:
        """Whether it is one of the others; who reaches the socket is of this user."""
        return number in self.others

    def watch(self, changed: Callable[[], None]) -> None:
        """Their number is fixed."""

    def socket_path(self, worker: int) -> Path:
        """Where a worker listens for the others; short, for such a path has 107 bytes."""
        return self.runtime / f"w{worker}"
