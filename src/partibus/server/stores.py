"""The stores of this process, made as the settings say.

Owns the choice between memory, directories and databases, and whether a store can be made to fail
on demand. It must never open a store. Called by the node.
"""

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from partibus.domain.errors import ConfigError
from partibus.domain.scheduler import Scheduler
from partibus.sealing.keys import DataKey
from partibus.server.config import ServeSettings
from partibus.store import fault_injection
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Notify, Store
from partibus.store.memory import MemoryStore
from partibus.store.sealed import SealedStore

if TYPE_CHECKING:
    from partibus.store.postgres.sharing import SharedAppends


@dataclass(eq=False)
class StoreMaker:
    """Makes stores by their number; keeps the faults of each when faults are enabled."""

    settings: ServeSettings
    notify: Notify
    scheduler: Scheduler
    data_key: DataKey | None = None
    faults: dict[int, fault_injection.StoreFaults] = field(init=False)
    _lane_faults: dict[int, fault_injection.LaneFaults] = field(init=False)
    _shared: "dict[str, SharedAppends]" = field(init=False, default_factory=dict)
    """Of each database, for the lanes of a cluster."""

    def __post_init__(self) -> None:
        databases = self.settings.store_databases if self.settings.faults else ()
        self._lane_faults = {number: fault_injection.LaneFaults() for number in databases}
        self.faults = {**self._lane_faults}

    def make(self, number: int) -> Store:
        """The store of that number, not open yet."""
        if self.settings.memory:
            return self._in_memory(number)
        if number in self.settings.store_databases:
            return self._in_database(number, self.settings.store_databases[number])
        store = self._on_disk(number)
        if self.data_key is None:
            return store
        directory = self.settings.store_directories[number]
        return SealedStore(directory, store, self.data_key.store_sealer(number))

    def _on_disk(self, number: int) -> SegmentStore:
        directory = self.settings.store_directories[number]
        free_min = self.settings.disk_free_min
        if not self.settings.faults:
            return SegmentStore(directory, notify=self.notify, free_min=free_min)
        disk = fault_injection.FaultyDisk(OsDisk())
        store = SegmentStore(directory, notify=self.notify, disk=disk, free_min=free_min)
        self.faults[number] = fault_injection.DiskFaults(store, disk)
        return store

    def _in_database(self, number: int, address: str) -> Store:
        if self.data_key is not None:
            raise ConfigError(
                f"Store {number} is in a database, which is not encrypted by this server: have the "
                "database encrypt its own disk, and start without an encryption key."
            )
        try:
            from partibus.store.postgres.store import PostgresStore
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"Store {number} is in a database, and the driver is missing: "
                "pip install 'partibus[postgres]'."
            ) from error
        owner = f"{socket.gethostname()} process {os.getpid()}"
        # A node of a cluster writes under a lease: its holder opens a lane again after a failure.
        is_alone = self.settings.cluster is None
        faults = self._lane_faults.get(number)
        store = PostgresStore(
            address,
            number,
            notify=self.notify,
            owner=owner,
            takes_over=is_alone,
            faults=faults,
            shared=None if is_alone else self._appends(address, owner),
        )
        if faults is not None:
            faults.attach(store)
        return store

    def _appends(self, address: str, owner: str) -> "SharedAppends":
        """What the lanes of this process in one database share."""
        from partibus.store.postgres.sharing import SharedAppends

        if address not in self._shared:
            self._shared[address] = SharedAppends(address, owner, self.notify)
        return self._shared[address]

    def _in_memory(self, number: int) -> Store:
        if not self.settings.faults:
            return MemoryStore(notify=self.notify)
        faults = fault_injection.MemoryFaults(self.notify, self._later)
        store = MemoryStore(notify=faults.notify)
        faults.attach(store)
        self.faults[number] = faults
        return store

    def _later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.scheduler.call_later_ms(delay_ms, callback)


def new_first_token() -> int:
    """The first lock number of a process.

    Clients outlive the process that holds their locks, so a token of an earlier incarnation must
    not match a lock of this one, unless that very lock was kept by a clean stop (LCK-5). Each
    incarnation has four billion numbers of its own, all below 2^62, where compiled integers are
    cheapest.
    """
    return secrets.randbits(30) << 32 | 1
