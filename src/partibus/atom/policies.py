"""Access policies inside descriptions: authorization rules with their keys (SAS-1 to SAS-3).

Owns the conversion between policies and `AuthorizationRules` elements. What is valid is decided by
`control.access.policies`, and the catalog keeps them. Called by the operations.
"""

from collections.abc import Iterable
from typing import Final

from partibus.atom.markup import TYPE, branch, leaf
from partibus.atom.reading import Description, shown
from partibus.control.access.policies import AccessPolicy, check_policy, new_key
from partibus.domain.errors import QuotaExceeded
from partibus.domain.limits import Profile
from partibus.domain.refusal import PropertyRefused
from partibus.domain.rights import names_of_rights, rights_from_names

RULES: Final = "AuthorizationRules"
_RULE: Final = "AuthorizationRule"
_TYPE: Final = "SharedAccessAuthorizationRule"


def read_policies(description: Description, profile: Profile) -> tuple[AccessPolicy, ...] | None:
    """The policies in a description; None when it has no such element."""
    holder = description.child(RULES)
    if holder is None:
        return None
    policies = tuple(_read(rule) for rule in holder.children(_RULE))
    if len({policy.name for policy in policies}) != len(policies):
        raise PropertyRefused(RULES, "two rules have the same KeyName.")
    most = profile.policies_per_level_max  # QTA-14
    if len(policies) > most:
        raise QuotaExceeded(f"{RULES}: at most {most} are allowed.")
    return policies


def _read(rule: Description) -> AccessPolicy:
    if rule.type_name not in ("", _TYPE):
        raise PropertyRefused(RULES, f"'{shown(rule.type_name)}' is not a rule type.")
    rights = rule.child("Rights")
    named = () if rights is None else rights.children("AccessRights")
    policy = AccessPolicy(
        name=rule.text_of("KeyName") or "",
        primary_key=rule.text_of("PrimaryKey") or new_key(),
        secondary_key=rule.text_of("SecondaryKey") or new_key(),
        rights=rights_from_names(right.text.strip() for right in named),
    )
    check_policy(policy)
    return policy


def write_policies(policies: Iterable[AccessPolicy], created: str, updated: str) -> str:
    """The element; the timestamps are those of the entity, as policies have none."""
    return branch(RULES, (_write(policy, created, updated) for policy in policies))


def _write(policy: AccessPolicy, created: str, updated: str) -> str:
    rights = (leaf("AccessRights", name) for name in names_of_rights(policy.rights))
    parts = (
        leaf("ClaimType", "SharedAccessKey"),
        leaf("ClaimValue", "None"),
        branch("Rights", rights),
        leaf("CreatedTime", created),
        leaf("ModifiedTime", updated),
        leaf("KeyName", policy.name),
        leaf("PrimaryKey", policy.primary_key),
        leaf("SecondaryKey", policy.secondary_key),
    )
    return branch(_RULE, parts, {TYPE: _TYPE})
