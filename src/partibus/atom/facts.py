"""What descriptions contain beyond an entity's properties: counts, times, keys, the namespace.

Owns the elements that clients read and never write (CNT-1, CNT-2, SEED-61, SEED-62). Records,
counts and policies are arguments. Called by the operations.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from partibus.atom.counts import EntityCounts
from partibus.atom.descriptions import DESCRIPTION_ATTRIBUTES, write_boolean
from partibus.atom.documents import NEVER, Caller
from partibus.atom.markup import COUNTS, branch, leaf
from partibus.atom.policies import write_policies
from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import (
    FilterType,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    message_bytes_max,
    shown_megabytes,
)
from partibus.domain.limits import KILOBYTE, Profile
from partibus.domain.quantities import moment_text

# The first version of the API that knows these elements.
_LARGE_MESSAGES: Final = "2021-05"
_FILTER_COUNTS: Final = "2024-05"


def common_facts(
    record: EntityRecord, counts: EntityCounts, policies: Sequence[AccessPolicy], caller: Caller
) -> dict[str, str]:
    """Elements that any kind of entity may have; the order of its kind picks from them."""
    created, updated = moment_text(record.created_ms), moment_text(record.updated_ms)
    availability = "Available" if counts.is_whole else "Limited"  # SEED-62
    facts = {
        "SizeInBytes": leaf("SizeInBytes", str(counts.size_bytes)),
        "MessageCount": leaf("MessageCount", str(counts.total)),
        "IsAnonymousAccessible": leaf("IsAnonymousAccessible", "false"),
        "AuthorizationRules": write_policies(policies, created, updated),
        "CreatedAt": leaf("CreatedAt", created),
        "UpdatedAt": leaf("UpdatedAt", updated),
        "AccessedAt": leaf("AccessedAt", NEVER),
        "CountDetails": _count_details(record, counts),
        "EntityAvailabilityStatus": leaf("EntityAvailabilityStatus", availability),
    }
    spec = record.spec
    if not isinstance(spec, TopicSpec):
        for name, target in (
            ("ForwardTo", spec.forward_to),
            ("ForwardDeadLetteredMessagesTo", spec.forward_dead_lettered_messages_to),
        ):
            if target:
                facts[name] = leaf(name, caller.entity_address(target))
    return facts


def sized_facts(spec: QueueSpec | TopicSpec, profile: Profile, caller: Caller) -> dict[str, str]:
    """Elements of queues and topics."""
    kilobytes = message_bytes_max(spec, profile) // KILOBYTE
    is_known = not caller.version or caller.version >= _LARGE_MESSAGES
    name = "MaxMessageSizeInKilobytes"
    facts = {
        name: leaf(name, str(kilobytes)) if is_known else "",
        "MaxSizeInMegabytes": leaf("MaxSizeInMegabytes", str(shown_megabytes(spec, profile))),
    }
    if isinstance(spec, QueueSpec):  # true for all that are not partitioned (PRP-1)
        ordering = write_boolean(not spec.enable_partitioning)
        facts["SupportOrdering"] = leaf("SupportOrdering", ordering)
    return facts


def topic_facts(
    spec: TopicSpec, subscriptions: Iterable[EntityRecord], caller: Caller
) -> dict[str, str]:
    """Elements of topics only (CNT-2)."""
    specs = [s.spec for s in subscriptions if isinstance(s.spec, SubscriptionSpec)]
    partitioned = write_boolean(spec.enable_partitioning)
    facts = {
        "SubscriptionCount": leaf("SubscriptionCount", str(len(specs))),
        "EnableSubscriptionPartitioning": leaf("EnableSubscriptionPartitioning", partitioned),
    }
    if not caller.version or caller.version >= _FILTER_COUNTS:
        kinds = [rule.filter_type for one in specs for rule in one.rules]
        correlations = kinds.count(FilterType.CORRELATION)
        facts["SqlFilterCount"] = leaf("SqlFilterCount", str(len(kinds) - correlations))
        facts["CorrelationFilterCount"] = leaf("CorrelationFilterCount", str(correlations))
    return facts


def _count_details(record: EntityRecord, counts: EntityCounts) -> str:
    elements: Mapping[str, int] = {
        # A topic keeps nothing for receivers, so nothing of it is active (CNT-2).
        "ActiveMessageCount": 0 if isinstance(record.spec, TopicSpec) else counts.active,
        "DeadLetterMessageCount": counts.dead_letter,
        "ScheduledMessageCount": counts.scheduled,
        "TransferMessageCount": counts.transfer,
        "TransferDeadLetterMessageCount": counts.transfer_dead_letter,
    }
    # The JavaScript client learns the prefix from this element (amqp-contract 12.5).
    leaves = (leaf(f"d2p1:{name}", str(count)) for name, count in elements.items())
    return branch("CountDetails", leaves, {"xmlns:d2p1": COUNTS})


def namespace_description(profile: Profile, name: str, created_ms: int, updated_ms: int) -> str:
    """The namespace; profiles correspond to the vendor's tiers."""
    sku = "Standard"
    if profile.name.startswith("premium"):
        sku = "Premium"
    elif profile.name == "basic":
        sku = "Basic"
    parts = [
        leaf("CreatedTime", moment_text(created_ms)),
        leaf("MessagingSKU", sku),
        *([leaf("MessagingUnits", "1")] if sku == "Premium" else []),
        leaf("ModifiedTime", moment_text(updated_ms)),
        leaf("Name", name),
        leaf("NamespaceType", "Messaging"),
    ]
    return branch("NamespaceInfo", parts, DESCRIPTION_ATTRIBUTES)
