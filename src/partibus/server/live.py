"""Changes of a namespace that one or several workers serve.

Owns the order of a change: it is refused while a store that it concerns is down (PAV-5, SEED-60),
it is written to the catalog, and every worker follows before the answer is given. A worker that
does not answer reads the catalog later. Two operations on one entity never overlap: the second is
refused (PRP-7). The catalog decides which changes are valid.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, TypeVar

from partibus.cluster.control_hub import ControlHub
from partibus.control.access.policies import AccessPolicy, KeyName, regenerate
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.control.placement import StoreLoads, UnknownLoads
from partibus.domain.address import parse_address, path_key
from partibus.domain.entity import EntitySpec
from partibus.domain.errors import CatalogBusy, EntityNotFound, OperationConflict, StoreUnavailable
from partibus.server.data_directory.catalog_writer import CatalogWriter
from partibus.server.follower import FOLLOW

BUSY_S: Final = 0.02
BUSY_TRIES_MAX: Final = 100
"""Together with the database's own time-out, about half a minute until a busy catalog is an
error."""

_Result = TypeVar("_Result")


async def in_turn(write: Callable[[], Awaitable[_Result]]) -> _Result:
    """Write when no other process is writing; writes take milliseconds."""
    for _ in range(BUSY_TRIES_MAX):
        with contextlib.suppress(CatalogBusy):
            return await write()
        await asyncio.sleep(BUSY_S)
    raise CatalogBusy


class ServerNamespace:
    """The `LiveNamespace` of a server, whatever the number of its workers."""

    def __init__(
        self,
        catalog: Catalog,
        control: ControlHub,
        loads: StoreLoads | None = None,
        writer: CatalogWriter | None = None,
    ) -> None:
        self._writer = CatalogWriter(catalog) if writer is None else writer
        self._control = control
        self._loads = UnknownLoads() if loads is None else loads
        self._under_way: set[str] = set()

    # --- entities -------------------------------------------------------------------------

    async def create(self, path: str, spec: EntitySpec) -> EntityRecord:
        """A new entity, ready for clients of every worker."""

        def write(catalog: Catalog) -> EntityRecord:
            with catalog.batch():
                # Refused inside, where its placement is known, so that a refusal leaves nothing
                # behind.
                return self._with_stores(catalog.create(path, spec, self._loads))

        return await self._change(path, write)

    async def update(self, path: str, spec: EntitySpec) -> EntityRecord:
        """An entity with other properties (PRP-3)."""

        def write(catalog: Catalog) -> EntityRecord:
            with catalog.batch():
                self._with_stores(catalog.entity(path))
                return catalog.update(path, spec)

        return await self._change(path, write)

    async def delete(self, path: str) -> EntityRecord:
        """Delete an entity and its messages; its links are closed with an error."""

        def write(catalog: Catalog) -> EntityRecord:
            with catalog.batch():
                self._with_stores(catalog.entity(path))
                return catalog.delete(path)

        return await self._change(path, write)

    def _with_stores(self, record: EntityRecord) -> EntityRecord:
        """Refuse while the store of one of the entity's fragments is down (SEED-60)."""
        stores = {placement.store for placement in record.fragments}
        down = sorted(store for store in stores if not self._loads.is_available(store))
        if down:
            raise StoreUnavailable(
                f"'{record.path}' cannot be created, changed or deleted now: store "
                f"{', '.join(map(str, down))}, with fragments of it, is down. It is probed until "
                "it answers; try again."
            )
        return record

    # --- policies -------------------------------------------------------------------------

    async def put_policy(self, path: str, policy: AccessPolicy) -> None:
        """Create or change a policy, in every worker."""
        await self._change(path, lambda catalog: catalog.put_policy(path, policy))

    async def delete_policy(self, path: str, name: str) -> None:
        """Delete a policy."""
        await self._change(path, lambda catalog: catalog.delete_policy(path, name))

    async def regenerate_key(self, path: str, name: str, which: KeyName) -> AccessPolicy:
        """Replace one of a policy's keys; grants of the old one end (SAS-7)."""

        def write(catalog: Catalog) -> AccessPolicy:
            with catalog.batch():
                policy = catalog.policy(path, name)
                if policy is None:
                    where = path or "the namespace"
                    raise EntityNotFound(f"There is no policy '{name}' on '{where}'.")
                policy = regenerate(policy, which)
                catalog.put_policy(path, policy)
                return policy

        return await self._change(path, write)

    # --- idle time ------------------------------------------------------------------------

    async def put_idle_times(self, idle_ms: Mapping[int, int]) -> None:
        """Save how long entities have been idle; other workers need not know."""
        await self._write(lambda catalog: catalog.put_idle_times(idle_ms))

    # --- the order of a change --------------------------------------------------------------

    async def _change(self, path: str, write: Callable[[Catalog], _Result]) -> _Result:
        with self._alone(path):
            result = await self._write(write)
            await self._control.ask_all(FOLLOW, {"generation": self._writer.generation})
            return result

    @contextlib.contextmanager
    def _alone(self, path: str) -> Iterator[None]:
        """One operation at a time on an entity, and on a topic with its subscriptions (PRP-7)."""
        key, topic = path_key(path), path_key(parse_address(path).entity)
        for other in self._under_way:
            if other in (key, topic) or path_key(parse_address(other).entity) == key:
                raise OperationConflict(
                    f"Another operation on '{path or 'the namespace'}' is in progress; try again "
                    "when it has finished. SubCode=40901."
                )
        self._under_way.add(key)
        try:
            yield
        finally:
            self._under_way.discard(key)

    async def _write(self, change: Callable[[Catalog], _Result]) -> _Result:
        return await in_turn(lambda: self._writer.write(change))
