"""The place of a process among the workers of one server.

Owns what all workers of one run share: the number of the run, the catalog's file, the TLS
directory, and the directory with the sockets over which they reach each other. The supervisor
makes it once and hands it to every worker; it holds no secret.
"""

from dataclasses import dataclass
from pathlib import Path

from partibus.control.placement import worker_of


@dataclass(slots=True, frozen=True, kw_only=True)
class Membership:
    """One worker of several."""

    worker: int
    workers: int
    run: int
    """32 random bits: workers of another run of the server are strangers."""
    runtime: Path
    catalog: Path
    tls: Path

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

    def socket_path(self, worker: int) -> Path:
        """Where a worker listens for the others; short, for such a path has 107 bytes."""
        return self.runtime / f"w{worker}"
