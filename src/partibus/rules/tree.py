"""The syntax tree of an expression.

Owns the node types; each knows its position in the text and its parts. Chains of one operator are
one node with many parts, so that depth means nesting and not length. Made by `rules.parser`, read
by `rules.compiler` and `rules.explain`. Nothing here evaluates.
"""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True, frozen=True)
class Node:
    """A term at `start` up to `end` of its text."""

    start: int
    end: int
    parts: tuple["Node", ...] = ()
    depth: int = field(init=False)
    is_constant: bool = field(init=False)

    is_condition: ClassVar[bool] = False
    """Whether the term is true, false or unknown by its form."""
    is_fixed: ClassVar[bool] = True
    """Whether the term is constant if its parts are."""

    def __post_init__(self) -> None:
        depth = 1 + max((part.depth for part in self.parts), default=0)
        object.__setattr__(self, "depth", depth)
        constant = self.is_fixed and all(part.is_constant for part in self.parts)
        object.__setattr__(self, "is_constant", constant)


# --- values -----------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Constant(Node):
    """A literal."""

    value: str | int | float | bool | None = None


@dataclass(slots=True, frozen=True)
class Parameter(Node):
    """`@name`, a value that came with the rule (SQL-12); the name is in lower case."""

    name: str = ""


@dataclass(slots=True, frozen=True)
class Property(Node):
    """A property; `name` is in lower case, canonical for a system property."""

    is_system: bool = False
    name: str = ""
    spelling: str = ""

    is_fixed: ClassVar[bool] = False


@dataclass(slots=True, frozen=True)
class Call(Node):
    """A call of a function of `rules.functions`; the parts are its arguments."""

    function: str = ""

    is_fixed: ClassVar[bool] = False


@dataclass(slots=True, frozen=True)
class Sign(Node):
    """`+` or `-` before its one part."""

    symbol: str = "-"


@dataclass(slots=True, frozen=True)
class Arithmetic(Node):
    """Parts with a symbol between each two, from left to right."""

    symbols: tuple[str, ...] = ()


# --- conditions -------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Condition(Node):
    """A term that is true, false or unknown by its form."""

    is_condition: ClassVar[bool] = True


@dataclass(slots=True, frozen=True)
class Comparison(Condition):
    """Two values and one of `= <> > >= < <=`; `!=` is written `<>` here."""

    symbol: str = "="


@dataclass(slots=True, frozen=True)
class Membership(Condition):
    """IN: the first part among the others."""

    is_negated: bool = False


@dataclass(slots=True, frozen=True)
class Pattern(Condition):
    """LIKE: a value, a pattern, and the escape if there is a third part."""

    is_negated: bool = False


@dataclass(slots=True, frozen=True)
class NullTest(Condition):
    """IS NULL of the one part, a property."""

    is_negated: bool = False


@dataclass(slots=True, frozen=True)
class Existence(Condition):
    """EXISTS of the one part, a property."""


@dataclass(slots=True, frozen=True)
class Negation(Condition):
    """NOT of the one part."""


@dataclass(slots=True, frozen=True)
class Conjunction(Condition):
    """AND of all parts."""


@dataclass(slots=True, frozen=True)
class Disjunction(Condition):
    """OR of all parts."""


# --- statements of an action --------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Statement:
    """SET of a property to a value, or REMOVE, which has none."""

    start: int
    end: int
    target: Property
    value: Node | None = None
