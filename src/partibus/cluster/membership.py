"""The membership of a process in a group: what `cluster.peers` must know of the others.

Owns the interface of such a group and its form for the workers of one server: the group's id, the
catalog's file, the TLS directory, and the directory with the sockets over which they reach each
other. The supervisor makes it once and passes it to every worker; it contains no secret and never
changes. The nodes of a cluster come and go: see `cluster.node_group`.
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
        """The word for one of them."""
        ...

    @property
    def group_id(self) -> int | str:
        """An id that all of them share and others do not have."""
        ...

    @property
    def others(self) -> list[int]:
        """The numbers of the other processes at present."""
        ...

    @property
    def transport(self) -> PeerTransport:
        """How to reach them."""
        ...

    def owner_of(self, store: int) -> int | None:
        """The single writer of a store; None when it is unknown."""
        ...

    def is_member(self, number: int, certificate: dict[str, object] | None) -> bool:
        """Whether a process that presents this number is one of the others."""
        ...

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this when one came or went."""
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
    """Where the working copy of an encrypted catalog is, in memory."""

    @property
    def kind(self) -> str:
        """The word for one of them in errors and in the log."""
        return "worker"

    @property
    def others(self) -> list[int]:
        """The numbers of the other workers."""
        return [number for number in range(self.workers) if number != self.worker]

    def owner_of(self, store: int) -> int:
        """The worker that is the single writer of a store."""
        return worker_of(store, self.workers)

    def owns(self, store: int) -> bool:
        """Whether this worker is that one."""
        return self.owner_of(store) == self.worker

    @property
    def transport(self) -> PeerTransport:
        """Sockets of this machine."""
        return UnixTransport(self.worker, self.socket_path)

    def is_member(self, number: int, certificate: dict[str, object] | None) -> bool:
        """Whether it is one of the others; only processes of this user can reach the socket."""
        return number in self.others

    def watch(self, changed: Callable[[], None]) -> None:
        """Not needed: their number is fixed."""

    def socket_path(self, worker: int) -> Path:
        """Where a worker listens for the others; short, since such a path is limited to 107
        bytes."""
        return self.runtime / f"w{worker}"
