"""The functions of SQL expressions: newid() and property(name).

Owns their names, how many arguments each takes, and what it returns for a message. A new function
is a row of FUNCTIONS: the builder checks calls by it, the compiler and `explain` evaluate by it.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partibus.rules.values import failure, kind_of
from partibus.rules.view import ABSENT, SYSTEM_ALIASES, SYSTEM_NAMES, MessageView


@dataclass(slots=True, frozen=True)
class Function:
    """One function, under each of its names."""

    shown: str
    arguments: int
    evaluate: Callable[[MessageView, tuple[object, ...], str], object]
    """The value for a message; the text of the call is for errors."""
    may_be_condition: bool = False
    """Whether it may return true or false."""


def _new_id(view: MessageView, arguments: tuple[object, ...], term: str) -> object:
    return uuid.uuid4()


def _property(view: MessageView, arguments: tuple[object, ...], term: str) -> object:
    """The name may begin with a scope (SQL-10)."""
    (name,) = arguments
    if name is None:
        return None
    if type(name) is not str:
        raise failure(term, f"{kind_of(name)} is not the name of a property")
    lower = name.lower()
    if lower.startswith("sys."):
        canonical = SYSTEM_ALIASES.get(lower[4:], lower[4:])
        if canonical not in SYSTEM_NAMES:
            raise failure(term, f"there is no system property {name[4:][:64]}")
        return view.system(canonical)
    value = view.user(lower.removeprefix("user."))
    return None if value is ABSENT else value


_PROPERTY: Final = Function("property(name)", 1, _property, may_be_condition=True)
FUNCTIONS: Final = {
    "newid": Function("newid()", 0, _new_id),
    "property": _PROPERTY,
    "p": _PROPERTY,
}
