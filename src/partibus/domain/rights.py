"""The three rights a policy can grant, and their names as the vendor spells them.

Owns the flag type and the conversion from and to names. It must never decide who has a right:
policies and grants have rights, and the gateway checks them.
"""

from collections.abc import Iterable
from enum import IntFlag
from typing import Final

from partibus.domain.errors import ArgumentError


class Rights(IntFlag):
    """What a policy or a grant allows (SAS-1)."""

    NONE = 0
    SEND = 1
    LISTEN = 2
    MANAGE = 4


ALL_RIGHTS: Final = Rights.SEND | Rights.LISTEN | Rights.MANAGE

# In the order in which the vendor prints them.
_NAMES: Final[dict[str, Rights]] = {
    "Manage": Rights.MANAGE,
    "Send": Rights.SEND,
    "Listen": Rights.LISTEN,
}
_BY_LOWER_NAME: Final = {name.lower(): right for name, right in _NAMES.items()}


def rights_from_names(names: Iterable[str]) -> Rights:
    """The union of the rights named; names are those of SAS-1, in any case."""
    rights = Rights.NONE
    for name in names:
        right = _BY_LOWER_NAME.get(name.lower())
        if right is None:
            raise ArgumentError(f"'{name}' is not a valid right; allowed: {', '.join(_NAMES)}.")
        rights |= right
    return rights


def names_of_rights(rights: Rights) -> tuple[str, ...]:
    """The vendor's names of the rights held: `("Manage", "Send", "Listen")` for all."""
    return tuple(name for name, right in _NAMES.items() if rights & right)
