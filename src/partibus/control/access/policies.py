"""Shared access policies: named pairs of keys with rights (SAS-1 to SAS-4, SAS-7).

Owns what a valid policy is, how keys are generated and rolled, and the root policy of a new
namespace. It must never look at tokens (`control.sas`) or decide a request (`control.access`). The
catalog keeps policies; the server calls this for the root policy once.
"""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from partibus.domain.errors import ArgumentError
from partibus.domain.limits import POLICY_NAME_LENGTH_MAX
from partibus.domain.rights import ALL_RIGHTS, Rights

if TYPE_CHECKING:
    from partibus.control.catalog.catalog import Catalog

ROOT_POLICY_NAME: Final = "RootManageSharedAccessKey"  # SAS-4
# The vendor's emulator publishes this key, so it is no secret: loopback only (EMU-7).
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
_KEY_BYTES: Final = 32  # SAS-1: 256 bits
_KEY_LENGTH_MAX: Final = 256
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(slots=True, frozen=True)
class AccessPolicy:
    """A named pair of keys and what they allow; both keys are valid (SAS-7)."""

    name: str
    primary_key: str
    secondary_key: str
    rights: Rights

    def __repr__(self) -> str:
        """Without the keys: a policy in a log must not reveal them."""
        return f"AccessPolicy(name={self.name!r}, rights={self.rights!r})"


class RootPolicy(NamedTuple):
    """The root policy, and whether it was just given a secret key."""

    policy: AccessPolicy
    has_new_key: bool


def new_key() -> str:
    """A random 256-bit key in base64 (SAS-1)."""
    import base64
    import secrets

    return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode("ascii")


def check_policy(policy: AccessPolicy) -> None:
    """Refuse a policy without a usable name, without keys, or against SAS-2."""
    if len(policy.name) > POLICY_NAME_LENGTH_MAX or not _NAME.fullmatch(policy.name):
        raise ArgumentError(
            f"'{policy.name}' is not a valid policy name: use 1 to {POLICY_NAME_LENGTH_MAX} "
            "letters, digits, "
            "'.', '-' and '_', beginning and ending with a letter or digit."
        )
    for key in (policy.primary_key, policy.secondary_key):
        if not 1 <= len(key) <= _KEY_LENGTH_MAX:
            raise ArgumentError(f"A key must have 1 to {_KEY_LENGTH_MAX} characters.")
    if not policy.rights:
        raise ArgumentError(f"The policy '{policy.name}' has no rights; give it at least one.")
    if policy.rights & Rights.MANAGE and policy.rights != ALL_RIGHTS:
        raise ArgumentError(
            f"The policy '{policy.name}' has Manage, which must come with Send and Listen."
        )


KeyName = Literal["primary", "secondary"]


def regenerate(policy: AccessPolicy, which: KeyName) -> AccessPolicy:
    """Replace one of the two keys (SAS-7)."""
    if which == "primary":
        return replace(policy, primary_key=new_key())
    return replace(policy, secondary_key=new_key())


def ensure_root_policy(
    catalog: "Catalog", *, loopback_only: bool, declared: bool = False
) -> RootPolicy:
    """The namespace's root policy, created when missing.

    The published development key is used only while the server can be reached only from this
    machine. A directory created on loopback that is now served to others gets a random key instead,
    unless the key was `declared` in the definitions file: then that is the owner's decision.
    """
    with catalog.batch():  # of nodes that start at the same time, one chooses the key
        return _root_policy(catalog, loopback_only, declared)


def _root_policy(catalog: "Catalog", loopback_only: bool, declared: bool) -> RootPolicy:
    policy = catalog.policy("", ROOT_POLICY_NAME)
    if policy is None:
        key = DEVELOPMENT_KEY if loopback_only else new_key()
        policy = AccessPolicy(ROOT_POLICY_NAME, key, new_key(), ALL_RIGHTS)
        catalog.put_policy("", policy)
        return RootPolicy(policy, not loopback_only)
    if DEVELOPMENT_KEY in (policy.primary_key, policy.secondary_key) and not (
        loopback_only or declared
    ):
        policy = replace(policy, primary_key=new_key(), secondary_key=new_key())
        catalog.put_policy("", policy)
        return RootPolicy(policy, True)
    return RootPolicy(policy, False)
