"""Entities and policies as operators send them: JSON in, changes of the namespace out.

Owns the forms of these requests and their answers. Every change goes through the live
namespace, so that it is durable and followed by every worker when it is answered. Called by
the HTTP side (`ops.admin.namespace`) for those with the Manage right on the namespace.
"""

from collections.abc import Mapping
from typing import Final, get_args

from partibus.cluster.control_hub import Payload
from partibus.control.access.policies import AccessPolicy, KeyName, new_key
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.control.declared.describe import describe
from partibus.control.declared.properties import changed_spec, new_spec
from partibus.control.live import LiveNamespace
from partibus.domain.errors import ArgumentError
from partibus.domain.rights import names_of_rights, rights_from_names

KEY_NAMES: Final[tuple[KeyName, ...]] = get_args(KeyName)


class NamespaceService:
    """Where operators change the namespace."""

    def __init__(self, catalog: Catalog, live: LiveNamespace) -> None:
        self._catalog = catalog
        self._live = live

    # --- entities -------------------------------------------------------------------------

    async def create(self, body: Payload) -> Payload:
        """A new entity of a kind, with properties as in a definitions file."""
        _refuse_unknown(body, ("name", "kind", "properties"))
        name = _text(body, "name")
        spec = new_spec(str(body.get("kind", "queue")), _properties(body))
        return _shown(await self._live.create(name, spec))

    async def update(self, name: str, body: Payload) -> Payload:
        """Change properties; those that are not named stay."""
        _refuse_unknown(body, ("properties",))
        spec = changed_spec(self._catalog.entity(name).spec, _properties(body))
        return _shown(await self._live.update(name, spec))

    async def delete(self, name: str) -> Payload:
        """Delete the entity, with all its messages."""
        return _shown(await self._live.delete(name))

    # --- policies -------------------------------------------------------------------------

    async def policies(self, entity: str) -> Payload:
        """The policies of an entity or, without one, of the namespace, by name."""
        if entity:
            self._catalog.entity(entity)
        found = sorted(self._catalog.policies(entity), key=lambda policy: policy.name)
        return {"policies": [_policy(policy) for policy in found]}

    async def put_policy(self, entity: str, name: str, body: Payload) -> Payload:
        """Create or change a policy; keys that are not given stay, or are generated."""
        _refuse_unknown(body, ("rights", "primary_key", "secondary_key"))
        known = self._catalog.policy(entity, name)
        rights = body.get("rights")
        if not isinstance(rights, list):
            raise ArgumentError('\'rights\' must be a list, for example ["Send", "Listen"].')
        keys = [
            _text(body, field) if field in body else getattr(known, field, None) or new_key()
            for field in ("primary_key", "secondary_key")
        ]
        policy = AccessPolicy(name, keys[0], keys[1], rights_from_names(map(str, rights)))
        await self._live.put_policy(entity, policy)
        return _policy(policy)

    async def delete_policy(self, entity: str, name: str) -> Payload:
        """Delete the policy, and every grant that rests on it."""
        await self._live.delete_policy(entity, name)
        return {"deleted": name}

    async def regenerate_key(self, entity: str, name: str, body: Payload) -> Payload:
        """Replace one of the two keys (SAS-7)."""
        _refuse_unknown(body, ("key",))
        for which in KEY_NAMES:
            if which == body.get("key", "primary"):
                return _policy(await self._live.regenerate_key(entity, name, which))
        raise ArgumentError(f"'key' must be one of {', '.join(KEY_NAMES)}.")


def _shown(record: EntityRecord) -> Payload:
    return {
        "name": record.path,
        "kind": record.kind.value,
        "fragment_count": len(record.fragments),
        "created_ms": record.created_ms,
        "updated_ms": record.updated_ms,
        "properties": describe(record.spec),
    }


def _policy(policy: AccessPolicy) -> Payload:
    return {
        "name": policy.name,
        "rights": list(names_of_rights(policy.rights)),
        "primary_key": policy.primary_key,
        "secondary_key": policy.secondary_key,
    }


def _properties(body: Payload) -> Mapping[str, object]:
    properties = body.get("properties", {})
    if not isinstance(properties, dict):
        raise ArgumentError("'properties' must be an object.")
    return properties


def _text(body: Payload, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise ArgumentError(f"'{key}' must be a string.")
    return value


def _refuse_unknown(body: Payload, allowed: tuple[str, ...]) -> None:
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise ArgumentError(f"'{unknown[0]}' is unknown; allowed: {', '.join(allowed)}.")
