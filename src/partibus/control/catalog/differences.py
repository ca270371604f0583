"""What has changed between two readings of the catalog.

Owns the comparison of two sets of records, which gives entries of the change feed, for the
processes that did not make a change themselves. An entity is identified by its id: one that was
deleted and created again under the same name is two changes. Pure; called by the catalog.
"""

from collections.abc import Iterable, Iterator, Mapping

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.record import Change, ChangeKind, EntityRecord

Policies = Mapping[str, Mapping[str, AccessPolicy]]


def differences(before: Iterable[EntityRecord], after: Iterable[EntityRecord]) -> Iterator[Change]:
    """The changes of entities: deletions first, since their names may be in use again."""
    old = {record.entity_id: record for record in before}
    new = {record.entity_id: record for record in after}
    # The newest first: subscriptions before their topic.
    for entity_id, record in reversed(old.items()):
        if entity_id not in new:
            yield Change(ChangeKind.DELETED, record.path, record, None)
    for entity_id, record in new.items():
        known = old.get(entity_id)
        if known is None:
            yield Change(ChangeKind.CREATED, record.path, None, record)
        elif known != record:
            yield Change(ChangeKind.UPDATED, record.path, known, record)


def policy_differences(before: Policies, after: Policies) -> Iterator[Change]:
    """The scopes whose policies have changed."""
    for scope in dict.fromkeys((*before, *after)):
        if before.get(scope, {}) != after.get(scope, {}):
            yield Change(ChangeKind.POLICIES, scope)
