"""Changes of the namespace while it is served.

Owns the one way in which an entity or a policy is changed at run time: every caller (the admin API,
a rule operation of a client, the command line) awaits the answer here, and when it comes the change
is durable and every process of the server follows it. The catalog decides which changes are valid.
The server's implementation is `server.live`.
"""

from collections.abc import Mapping
from typing import Protocol

from partibus.control.access.policies import AccessPolicy, KeyName
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import EntitySpec


class LiveNamespace(Protocol):
    """The namespace, as seen by code that changes it; every refusal is a `BusError`."""

    async def create(self, path: str, spec: EntitySpec) -> EntityRecord: ...

    async def update(self, path: str, spec: EntitySpec) -> EntityRecord: ...

    async def delete(self, path: str) -> EntityRecord: ...

    async def put_policy(self, path: str, policy: AccessPolicy) -> None: ...

    async def delete_policy(self, path: str, name: str) -> None: ...

    async def regenerate_key(self, path: str, name: str, which: KeyName) -> AccessPolicy: ...

    async def put_idle_times(self, idle_ms: Mapping[int, int]) -> None: ...
