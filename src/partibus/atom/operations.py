"""Changing: entities and rules created, replaced and deleted by description.

Owns what a PUT and a DELETE mean (HTP-6, PRP-2, PRP-3). Everything is read and checked before the
first change; the catalog decides what is valid, and changes go through the live namespace, so that
every process follows them. Called by the application.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from partibus.atom.access import Permission
from partibus.atom.catalog_view import CatalogView, find_rule
from partibus.atom.descriptions import described_kind, read_spec, read_update
from partibus.atom.documents import Caller
from partibus.atom.error_mapping import MethodNotAllowed
from partibus.atom.policies import read_policies
from partibus.atom.reading import Description
from partibus.atom.resource import Resource, ResourceKind
from partibus.atom.rules import DEFAULT_RULE, read_rule
from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.live import LiveNamespace
from partibus.domain.entity import (
    EntityKind,
    EntitySpec,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    asked_megabytes,
    message_bytes_max,
)
from partibus.domain.errors import EntityExists, EntityNotFound
from partibus.domain.limits import KILOBYTE
from partibus.domain.refusal import PropertyRefused

_RULE_NAME_REFUSED: Final = "/\\@?#*"
"""Characters that the vendor's clients refuse in the name of a rule."""

_PARTITIONING: Final = "2013-10"
"""The first version of the API with partitioned entities."""


class Operations:
    """Write access to the namespace."""

    def __init__(self, catalog: Catalog, live: LiveNamespace, view: CatalogView) -> None:
        self._catalog = catalog
        self._live = live
        self._view = view
        # A rule is changed by replacing all rules of its subscription: one change at a time.
        self._changing_rules = asyncio.Lock()

    async def put(
        self,
        resource: Resource,
        description: Description,
        is_update: bool,
        permission: Permission,
        caller: Caller,
    ) -> str:
        """Create or replace the resource; returns its new state."""
        if resource.kind is ResourceKind.RULE:
            return await self._put_rule(resource, description, is_update, caller)
        if resource.kind not in (ResourceKind.ENTITY, ResourceKind.SUBSCRIPTION):
            raise MethodNotAllowed(f"'{resource.path}' is read-only.")
        spec = self._with_asked_size(self._read(resource, description, is_update))
        if not is_update:
            _refuse_early_partitioning(spec, caller)
        policies = None
        if not isinstance(spec, SubscriptionSpec):
            policies = read_policies(description, self._catalog.profile)
        permission.require_targets(spec)
        change = self._live.update if is_update else self._live.create
        record = await change(resource.entity_path, spec)
        if policies is not None:
            await self._put_policies(record.path, policies)
        return self._view.document(record, caller)

    async def delete(self, resource: Resource) -> None:
        """Delete the resource."""
        if resource.kind is ResourceKind.RULE:
            await self._delete_rule(resource)
        elif resource.kind in (ResourceKind.ENTITY, ResourceKind.SUBSCRIPTION):
            await self._live.delete(resource.entity_path)
        else:
            raise MethodNotAllowed(f"'{resource.path}' is read-only.")

    # --- entities -------------------------------------------------------------------------

    def _read(self, resource: Resource, description: Description, is_update: bool) -> EntitySpec:
        is_subscription = resource.kind is ResourceKind.SUBSCRIPTION
        kinds = (
            (EntityKind.SUBSCRIPTION,) if is_subscription else (EntityKind.QUEUE, EntityKind.TOPIC)
        )
        kind = described_kind(description, kinds)
        if is_update:
            before = self._view.entity(resource)
            described_kind(description, (before.kind,))
            return self._updated(before.spec, description)
        spec = read_spec(description, kind)
        default = description.child(DEFAULT_RULE) if is_subscription else None
        if isinstance(spec, SubscriptionSpec) and default is not None:
            spec = replace(spec, rules=(read_rule(default, ""),))
        return spec

    def _updated(self, before: EntitySpec, description: Description) -> EntitySpec:
        after = read_update(description, before)
        if isinstance(after, SubscriptionSpec) or isinstance(before, SubscriptionSpec):
            return after
        return self._with_message_size(before, after)

    def _with_message_size(
        self, before: QueueSpec | TopicSpec, after: QueueSpec | TopicSpec
    ) -> QueueSpec | TopicSpec:
        """Clients send back the size that they were shown: if it was not set, it stays unset."""
        shown = message_bytes_max(before, self._catalog.profile) // KILOBYTE
        reported = after.max_message_size_in_kilobytes
        if before.max_message_size_in_kilobytes is None and reported == shown:
            return replace(after, max_message_size_in_kilobytes=None)
        return after

    def _with_asked_size(self, spec: EntitySpec) -> EntitySpec:
        """The size of each fragment, when a client sends the total that it was shown."""
        if isinstance(spec, SubscriptionSpec) or not spec.enable_partitioning:
            return spec
        profile = self._catalog.profile
        fragments = spec.fragments if spec.fragments > 1 else profile.fragments_default
        asked = asked_megabytes(spec.max_size_in_megabytes, fragments, profile)
        return replace(spec, max_size_in_megabytes=asked)

    async def _put_policies(self, path: str, wanted: Sequence[AccessPolicy]) -> None:
        """Set all policies of the entity."""
        names = {policy.name for policy in wanted}
        for policy in self._catalog.policies(path):
            if policy.name not in names:
                await self._live.delete_policy(path, policy.name)
        for policy in wanted:
            await self._live.put_policy(path, policy)

    # --- rules ----------------------------------------------------------------------------

    async def _put_rule(
        self, resource: Resource, description: Description, is_update: bool, caller: Caller
    ) -> str:
        rule = read_rule(description, resource.rule)
        if set(rule.name) & set(_RULE_NAME_REFUSED):
            raise PropertyRefused(
                "Name", f"'{rule.name}' may not contain any of {' '.join(_RULE_NAME_REFUSED)}"
            )
        async with self._changing_rules:
            record, spec = self._view.subscription(resource)
            old = find_rule(spec, rule.name)
            if old is None and is_update:
                raise EntityNotFound.named(resource.path)
            if old is not None and not is_update:  # FLT-11
                raise EntityExists.named(resource.path)
            if old is None:
                rules = (*spec.rules, rule)
            else:
                rule = replace(rule, name=old.name)
                rules = tuple(rule if kept is old else kept for kept in spec.rules)
            record = await self._live.update(record.path, replace(spec, rules=rules))
        return self._view.rule_document(record, rule, caller)

    async def _delete_rule(self, resource: Resource) -> None:
        async with self._changing_rules:
            record, spec = self._view.subscription(resource)
            old = find_rule(spec, resource.rule)
            if old is None:
                raise EntityNotFound.named(resource.path)
            rules = tuple(rule for rule in spec.rules if rule is not old)
            await self._live.update(record.path, replace(spec, rules=rules))


def _refuse_early_partitioning(spec: EntitySpec, caller: Caller) -> None:
    """Partitioning came with a version of the API, and is refused in earlier ones (CON-12)."""
    if isinstance(spec, SubscriptionSpec) or not spec.enable_partitioning:
        return
    if caller.version < _PARTITIONING:
        raise PropertyRefused(
            "enable_partitioning", f"it needs api-version={_PARTITIONING} or later."
        )
