"""Changes of the namespace while it is served.

Owns the one way in which an entity or a policy is changed at run time: whoever asks (the admin
API, a rule operation of a client, the command line) awaits the answer here, and when it comes
the change is durable and every process of the server follows it. What a change may be is the
catalog's to say. The implementation for one process stands here; the server puts another in
its place where there are several workers.
"""

from collections.abc import Mapping
from typing import Protocol

from partibus.control.catalog import Catalog
from partibus.control.policies import AccessPolicy, KeyName, regenerate
from partibus.control.record import EntityRecord
from partibus.domain.entity import EntitySpec
from partibus.domain.errors import EntityNotFound


class LiveNamespace(Protocol):
    """The namespace, as those who change it see it; every refusal is a `BusError`."""

    async def create(self, path: str, spec: EntitySpec) -> EntityRecord: ...

    async def update(self, path: str, spec: EntitySpec) -> EntityRecord: ...

    async def delete(self, path: str) -> EntityRecord: ...

    async def put_policy(self, path: str, policy: AccessPolicy) -> None: ...

    async def delete_policy(self, path: str, name: str) -> None: ...

    async def regenerate_key(self, path: str, name: str, which: KeyName) -> AccessPolicy: ...

    async def put_idle_times(self, idle_ms: Mapping[int, int]) -> None: ...


class LocalNamespace:
    """A namespace that one process serves: the catalog's change feed reaches everybody."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def create(self, path: str, spec: EntitySpec) -> EntityRecord:
        """A new entity, ready for clients."""
        return self._catalog.create(path, spec)

    async def update(self, path: str, spec: EntitySpec) -> EntityRecord:
        """An entity with other properties (PRP-3)."""
        return self._catalog.update(path, spec)

    async def delete(self, path: str) -> EntityRecord:
        """An entity and its messages are gone."""
        return self._catalog.delete(path)

    async def put_policy(self, path: str, policy: AccessPolicy) -> None:
        """A policy holds from now on."""
        self._catalog.put_policy(path, policy)

    async def delete_policy(self, path: str, name: str) -> None:
        """A policy holds no more."""
        self._catalog.delete_policy(path, name)

    async def regenerate_key(self, path: str, name: str, which: KeyName) -> AccessPolicy:
        """A new key in the place of one of a policy's (SAS-7)."""
        known = self._catalog.policy(path, name)
        if known is None:
            raise EntityNotFound(f"There is no policy '{name}' on '{path or 'the namespace'}'.")
        policy = regenerate(known, which)
        self._catalog.put_policy(path, policy)
        return policy

    async def put_idle_times(self, idle_ms: Mapping[int, int]) -> None:
        """Keep for how long entities have been idle (IDL-1)."""
        self._catalog.put_idle_times(idle_ms)
