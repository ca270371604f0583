"""Changes of the namespace in a process without workers, for tests.

Owns a `LiveNamespace` that uses only the catalog, whose change feed reaches all parts.
"""

from collections.abc import Mapping

from partibus.control.access.policies import AccessPolicy, KeyName, regenerate
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import EntitySpec
from partibus.domain.errors import EntityNotFound


class LocalNamespace:
    """A namespace served by one process: the catalog's change feed reaches all parts."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def create(self, path: str, spec: EntitySpec) -> EntityRecord:
        """A new entity, ready for clients."""
        return self._catalog.create(path, spec)

    async def update(self, path: str, spec: EntitySpec) -> EntityRecord:
        """An entity with other properties (PRP-3)."""
        return self._catalog.update(path, spec)

    async def delete(self, path: str) -> EntityRecord:
        """Delete an entity and its messages."""
        return self._catalog.delete(path)

    async def put_policy(self, path: str, policy: AccessPolicy) -> None:
        """Create or change a policy."""
        self._catalog.put_policy(path, policy)

    async def delete_policy(self, path: str, name: str) -> None:
        """Delete a policy."""
        self._catalog.delete_policy(path, name)

    async def regenerate_key(self, path: str, name: str, which: KeyName) -> AccessPolicy:
        """Replace one of a policy's keys (SAS-7)."""
        known = self._catalog.policy(path, name)
        if known is None:
            raise EntityNotFound(f"There is no policy '{name}' on '{path or 'the namespace'}'.")
        policy = regenerate(known, which)
        self._catalog.put_policy(path, policy)
        return policy

    async def put_idle_times(self, idle_ms: Mapping[int, int]) -> None:
        """Store how long entities have been idle (IDL-1)."""
        self._catalog.put_idle_times(idle_ms)
