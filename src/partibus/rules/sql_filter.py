"""An SQL filter, ready for messages.

Owns the compilation of a rule's text, and what can be known of a filter without a message: whether
it is constant, and which text a property must have for it to be true at all. Called by
`rules.ruleset` and `rules.check`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from partibus.domain.property_value import PropertyValue
from partibus.rules import tree
from partibus.rules.compiler import Compiler, NoMessage
from partibus.rules.complaint import Complaint
from partibus.rules.errors import FilterError
from partibus.rules.parser import parse_filter
from partibus.rules.tree import Node


class Guard(NamedTuple):
    """A filter is false, and was not evaluated further, for any other text in a property."""

    is_system: bool
    name: str
    texts: frozenset[str]
    is_whole: bool
    """Whether this is the whole condition, so that a message without the property does not
    match."""


class SqlFilter:
    """A compiled filter."""

    __slots__ = ("constant", "guard", "matches", "text")

    def __init__(self, text: str, parameters: Mapping[str, PropertyValue]) -> None:
        root = parse_filter(text)
        compiler = Compiler(text, parameters)
        try:
            self.matches = compiler.condition(root)
            """True, False, None for unknown; raises `EvaluationError` (FLT-9)."""
            self.guard = _guard(compiler, root)
        except Complaint as complaint:
            raise FilterError(complaint.reason, text, complaint.start, complaint.end) from None
        self.text = text
        self.constant: bool | None = None
        """The result for every message, if it is constant; unknown counts as false."""
        if root.is_constant:
            self.constant = self.matches(NoMessage()) is True


def _guard(compiler: Compiler, root: Node) -> Guard | None:
    """The text that the first term requires of a property, if that is all it checks."""
    first = root.parts[0] if isinstance(root, tree.Conjunction) else root
    is_equality = isinstance(first, tree.Comparison) and first.symbol == "="
    is_membership = isinstance(first, tree.Membership) and not first.is_negated
    if not (is_equality or is_membership):
        return None
    target, *items = first.parts
    if not isinstance(target, tree.Property) or not all(item.is_constant for item in items):
        return None
    texts = [compiler.constant(item) for item in items]
    if not all(type(text) is str for text in texts):
        return None
    return Guard(target.is_system, target.name, frozenset(map(str, texts)), first is root)
