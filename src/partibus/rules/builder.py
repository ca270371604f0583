"""The nodes that the parser makes of each rule of the grammar.

Owns the meaning of a rule's children: literals and their ranges (SQL-4), names and scopes (SQL-1,
SQL-2), and that conditions and values are only where they are allowed. An error is a `Complaint`
with its position. The methods have the names of the grammar's rules and are called by lark from the
leaves up, without recursion. Used by `rules.parser`.
"""

import difflib
import math
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from lark import Token, v_args
from lark.visitors import Transformer_NonRecursive

from partibus.rules import tree
from partibus.rules.complaint import Complaint
from partibus.rules.functions import FUNCTIONS
from partibus.rules.tree import Node, Property, Statement
from partibus.rules.view import SYSTEM_ALIASES, SYSTEM_NAMES

if TYPE_CHECKING:
    from lark.tree import Meta

    Base: TypeAlias = Transformer_NonRecursive[Token, object]
else:
    Base = Transformer_NonRecursive

DEPTH_MAX: Final = 64
"""How deep terms may be nested; each level is a call when a message is evaluated."""
INTEGER_LIMIT: Final = 2**63

Children = list[Node | Token]


@v_args(meta=True)
class TreeBuilder(Base):
    """One method for each rule and alias of the grammar."""

    def filter_text(self, meta: "Meta", children: list[Node]) -> Node:
        return _condition(children[0])

    def action_text(self, meta: "Meta", children: list[Statement]) -> tuple[Statement, ...]:
        return tuple(children)

    def set_statement(self, meta: "Meta", children: Children) -> Statement:
        target, value = _nodes(children)
        return Statement(*_place(meta), cast(Property, target), _value(value))

    def remove_statement(self, meta: "Meta", children: Children) -> Statement:
        (target,) = _nodes(children)
        return Statement(*_place(meta), cast(Property, target))

    # --- conditions -------------------------------------------------------------------------

    def disjunction(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Disjunction(*_place(meta), _conditions(children)))

    def conjunction(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Conjunction(*_place(meta), _conditions(children)))

    def negate(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Negation(*_place(meta), _conditions(children)))

    def equal(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Comparison(*_place(meta), _values(children), "="))

    def compare(self, meta: "Meta", children: Children) -> Node:
        symbol = str(children[1]).replace("!=", "<>")
        return _bounded(tree.Comparison(*_place(meta), _values(children), symbol))

    def is_in(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Membership(*_place(meta), _values(children), False))

    def not_in(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Membership(*_place(meta), _values(children), True))

    def like(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Pattern(*_place(meta), _values(children), False))

    def not_like(self, meta: "Meta", children: Children) -> Node:
        return _bounded(tree.Pattern(*_place(meta), _values(children), True))

    def is_null(self, meta: "Meta", children: Children) -> Node:
        return tree.NullTest(*_place(meta), (_property(children),), False)

    def is_not_null(self, meta: "Meta", children: Children) -> Node:
        return tree.NullTest(*_place(meta), (_property(children),), True)

    def exists(self, meta: "Meta", children: Children) -> Node:
        return tree.Existence(*_place(meta), (_property(children),))

    # --- values -----------------------------------------------------------------------------

    def arithmetic(self, meta: "Meta", children: Children) -> Node:
        symbols = tuple(str(child) for child in children if isinstance(child, Token))
        return _bounded(tree.Arithmetic(*_place(meta), _values(children), symbols))

    def sign(self, meta: "Meta", children: Children) -> Node:
        (part,) = _values(children)
        symbol = str(children[0])
        if isinstance(part, tree.Constant) and type(part.value) in (int, float):
            number = cast(float, part.value)  # so that the smallest integer can be written
            return tree.Constant(*_place(meta), (), -number if symbol == "-" else number)
        return _bounded(tree.Sign(*_place(meta), (part,), symbol))

    def integer(self, meta: "Meta", children: list[Token]) -> Node:
        number = int(children[0])
        if number > INTEGER_LIMIT:
            raise Complaint("A whole number has at most 64 bits.", *_place(meta))
        return tree.Constant(*_place(meta), (), number)

    def decimal(self, meta: "Meta", children: list[Token]) -> Node:
        number = float(children[0])
        if math.isinf(number):
            raise Complaint("The number is larger than a double can be.", *_place(meta))
        return tree.Constant(*_place(meta), (), number)

    def text(self, meta: "Meta", children: list[Token]) -> Node:
        return tree.Constant(*_place(meta), (), children[0][1:-1].replace("''", "'"))

    def true(self, meta: "Meta", children: list[Token]) -> Node:
        return tree.Constant(*_place(meta), (), True)

    def false(self, meta: "Meta", children: list[Token]) -> Node:
        return tree.Constant(*_place(meta), (), False)

    def null(self, meta: "Meta", children: list[Token]) -> Node:
        return tree.Constant(*_place(meta), (), None)

    def parameter(self, meta: "Meta", children: list[Token]) -> Node:
        return tree.Parameter(*_place(meta), (), children[0][1:].lower())

    def call(self, meta: "Meta", children: Children) -> Node:
        name, parts = str(children[0]).lower(), _values(children)
        function = FUNCTIONS.get(name)
        start, end = _place(meta)
        if function is None:
            known = " and ".join(dict.fromkeys(one.shown for one in FUNCTIONS.values()))
            raise Complaint(f"There is no function {children[0]}; use {known}.", start, end)
        if len(parts) != function.arguments:
            arguments = ("no argument", "one argument")[function.arguments]
            raise Complaint(f"{name}() takes {arguments}.", start, end)
        return _bounded(tree.Call(start, end, parts, name))

    def property_name(self, meta: "Meta", children: list[Token]) -> Node:
        start, end = _place(meta)
        name = _spelled(children[-1])
        if len(children) == 1 or children[0].lower() == "user":
            return Property(start, end, (), False, name.lower(), name)
        if children[0].lower() != "sys":
            raise Complaint(
                f"{children[0]} is not a scope; write sys. or user., or brackets around a name "
                "with a dot.",
                start,
                end,
            )
        return Property(start, end, (), True, _system_name(name, start, end), name)


# --- children ---------------------------------------------------------------------------------


def _place(meta: "Meta") -> tuple[int, int]:
    return meta.start_pos, meta.end_pos


def _nodes(children: Children) -> tuple[Node, ...]:
    return tuple(child for child in children if isinstance(child, Node))


def _values(children: Children) -> tuple[Node, ...]:
    return tuple(map(_value, _nodes(children)))


def _conditions(children: Children) -> tuple[Node, ...]:
    return tuple(map(_condition, _nodes(children)))


def _value(node: Node) -> Node:
    if node.is_condition:
        raise Complaint("A condition cannot be used as a value.", node.start, node.end)
    return node


def _condition(node: Node) -> Node:
    """A condition, or a value that may be a boolean (section 16.1)."""
    may_hold = isinstance(node, tree.Property | tree.Parameter) or (
        isinstance(node, tree.Call) and FUNCTIONS[node.function].may_be_condition
    )
    if isinstance(node, tree.Constant):
        may_hold = isinstance(node.value, bool)
    if not (node.is_condition or may_hold):
        raise Complaint(
            "A condition is needed here, for example a comparison.", node.start, node.end
        )
    return node


def _property(children: Children) -> Node:
    (node,) = _nodes(children)
    if not isinstance(node, Property):
        raise Complaint("Only a property can be tested for NULL.", node.start, node.end)
    return node


def _bounded(node: Node) -> Node:
    if node.depth > DEPTH_MAX:
        raise Complaint(
            f"The terms are nested more than {DEPTH_MAX} levels deep.", node.start, node.end
        )
    return node


# --- names ------------------------------------------------------------------------------------


def _spelled(token: Token) -> str:
    """The name without its quotes or brackets, with doubled ones unescaped (SQL-11)."""
    text = str(token)
    if token.type == "BRACKETED":
        return text[1:-1].replace("]]", "]")
    if token.type == "QUOTED":
        return text[1:-1].replace('""', '"')
    return text


def _system_name(name: str, start: int, end: int) -> str:
    canonical = SYSTEM_ALIASES.get(name.lower(), name.lower())
    if canonical in SYSTEM_NAMES:
        return canonical
    close = difflib.get_close_matches(canonical, SYSTEM_NAMES, n=1)
    hint = f"did you mean sys.{SYSTEM_NAMES[close[0]]}?" if close else _all_names()
    raise Complaint(f"There is no system property {name}; {hint}", start, end)


def _all_names() -> str:
    return f"there are {', '.join(SYSTEM_NAMES.values())}, Subject."
