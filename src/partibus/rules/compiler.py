"""From a tree to closures: an expression is compiled once and called for each message.

Owns three-valued logic (SQL-8, SQL-9): every closure takes a view and returns a value, None for
unknown, or raises `EvaluationError`. Conditions return True, False or None. AND, OR and IN stop at
the first part that decides. Terms without properties are evaluated here, once; one that cannot be
evaluated is refused (FLT-8). Called by `rules.sql_filter`, `rules.action` and `rules.explain`.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from partibus.domain.property_value import PropertyValue
from partibus.rules import tree
from partibus.rules.complaint import Complaint
from partibus.rules.errors import EvaluationError
from partibus.rules.functions import FUNCTIONS
from partibus.rules.logic import (
    Condition,
    Evaluator,
    Truth,
    among,
    among_constants,
    decided_by,
    like,
    like_constant,
    made_pattern,
    negated,
)
from partibus.rules.time_values import operand
from partibus.rules.tree import Node, Property
from partibus.rules.values import (
    INTEGER_MOST,
    ORDERED,
    RELATIONS,
    calculate,
    compare,
    failure,
    kind_of,
    signed,
)
from partibus.rules.view import ABSENT, MessageView

Result = TypeVar("Result")


class NoMessage:
    """The view for terms that look at no message."""

    def system(self, name: str) -> object:
        """Always None."""
        raise AssertionError(name)

    def user(self, name_lower: str) -> object:
        """Always absent."""
        raise AssertionError(name_lower)

    def names(self) -> frozenset[str]:
        """Always empty."""
        return frozenset()


class Compiler:
    """Compiles the terms of one text, with the values of its parameters."""

    def __init__(self, text: str, parameters: Mapping[str, PropertyValue]) -> None:
        self._text = text
        self._parameters = {
            name.removeprefix("@").lower(): value for name, value in parameters.items()
        }

    def value(self, node: Node) -> Evaluator:
        """The closure of a value."""
        run = _COMPILERS[type(node)](self, node)
        if not node.is_constant:
            return run
        constant = _evaluated(node, lambda: run(NoMessage()))
        return lambda view: constant

    def condition(self, node: Node) -> Condition:
        """The closure of a term where a condition is required."""
        run = self.value(node)
        if node.is_condition:
            return cast(Condition, run)
        term = self.term(node)

        def as_condition(view: MessageView) -> Truth:
            value = run(view)
            if value is None or value is True or value is False:
                return value
            raise failure(term, f"{kind_of(value)} is not a condition")

        if node.is_constant:
            _evaluated(node, lambda: as_condition(NoMessage()))
        return as_condition

    def term(self, node: Node) -> str:
        """The term as its author wrote it."""
        return self._text[node.start : node.end]

    def constant(self, node: Node) -> object:
        """The value of a constant term."""
        return self.value(node)(NoMessage())

    # --- values -----------------------------------------------------------------------------

    def _constant(self, node: tree.Constant) -> Evaluator:
        value = node.value
        if type(value) is int and value > INTEGER_MOST:
            raise Complaint("A whole number has at most 64 bits.", node.start, node.end)
        return lambda view: value

    def _parameter(self, node: tree.Parameter) -> Evaluator:
        if node.name not in self._parameters:
            raise Complaint(f"No value was given for @{node.name}.", node.start, node.end)
        value = operand(self._parameters[node.name])
        return lambda view: value

    def _property(self, node: Property) -> Evaluator:
        name = node.name
        if node.is_system:
            return lambda view: view.system(name)

        def user(view: MessageView) -> object:
            value = view.user(name)
            return None if value is ABSENT else value

        return user

    def _call(self, node: tree.Call) -> Evaluator:
        evaluate, term = FUNCTIONS[node.function].evaluate, self.term(node)
        parts = [self.value(part) for part in node.parts]
        return lambda view: evaluate(view, tuple([part(view) for part in parts]), term)

    def _sign(self, node: tree.Sign) -> Evaluator:
        (part,) = map(self.value, node.parts)
        symbol, term = node.symbol, self.term(node)
        return lambda view: signed(symbol, part(view), term)

    def _arithmetic(self, node: tree.Arithmetic) -> Evaluator:
        first, *others = map(self.value, node.parts)
        term = self.term(node)
        steps = list(zip(node.symbols, others, strict=True))

        def run(view: MessageView) -> object:
            value = first(view)
            for symbol, other in steps:
                value = calculate(symbol, value, other(view), term)
            return value

        return run

    # --- conditions ---------------------------------------------------------------------------

    def _comparison(self, node: tree.Comparison) -> Evaluator:
        left, right = map(self.value, node.parts)
        symbol, term = node.symbol, self.term(node)
        if node.parts[1].is_constant:
            return self._comparison_with(node, left, right(NoMessage()))
        relation = RELATIONS[symbol]

        def run(view: MessageView) -> Truth:
            first, second = left(view), right(view)
            if type(first) is type(second) and type(first) in ORDERED:
                return relation(first, second)
            return compare(symbol, first, second, term)

        return run

    def _comparison_with(
        self, node: tree.Comparison, left: Evaluator, constant: object
    ) -> Evaluator:
        """A comparison with a constant, by far the most common."""
        symbol, term, kind = node.symbol, self.term(node), type(constant)
        relation = RELATIONS[symbol]
        if kind not in ORDERED:
            return lambda view: compare(symbol, left(view), constant, term)

        def run(view: MessageView) -> Truth:
            value = left(view)
            if type(value) is kind:
                return relation(value, constant)
            return compare(symbol, value, constant, term)

        return run

    def _membership(self, node: tree.Membership) -> Evaluator:
        operand, *items = map(self.value, node.parts)
        term = self.term(node)
        found = among(operand, items, term)
        if all(item.is_constant for item in node.parts[1:]):
            constants = [item(NoMessage()) for item in items]
            if len(set(map(type, constants))) == 1 and type(constants[0]) in (str, int):
                found = among_constants(operand, constants, found)
        return negated(found) if node.is_negated else found

    def _pattern(self, node: tree.Pattern) -> Evaluator:
        operands = tuple(map(self.value, node.parts))
        term = self.term(node)
        found = like(operands, term)
        if all(part.is_constant for part in node.parts[1:]):
            values = [part(NoMessage()) for part in operands[1:]]
            if None not in values:
                pattern = _evaluated(node, lambda: made_pattern(values, term))
                found = like_constant(operands[0], pattern, term)
        return negated(found) if node.is_negated else found

    def _null_test(self, node: tree.NullTest) -> Evaluator:
        (part,) = map(self.value, node.parts)
        if node.is_negated:
            return lambda view: part(view) is not None
        return lambda view: part(view) is None

    def _existence(self, node: tree.Existence) -> Evaluator:
        target = cast(Property, node.parts[0])
        name = target.name
        if target.is_system:
            return lambda view: view.system(name) is not None
        return lambda view: view.user(name) is not ABSENT

    def _negation(self, node: tree.Negation) -> Evaluator:
        return negated(self.condition(node.parts[0]))

    def _conjunction(self, node: tree.Conjunction) -> Evaluator:
        return decided_by(False, [self.condition(part) for part in node.parts])

    def _disjunction(self, node: tree.Disjunction) -> Evaluator:
        return decided_by(True, [self.condition(part) for part in node.parts])


def _evaluated(node: Node, evaluate: Callable[[], Result]) -> Result:
    """What depends on no message; a term that cannot be evaluated is complained about at once."""
    try:
        return evaluate()
    except EvaluationError as error:
        raise Complaint(
            f"This cannot be evaluated: {error.reason}.", node.start, node.end
        ) from None


_COMPILERS: Final[dict[type[Node], Callable[[Compiler, Node], Evaluator]]] = cast(
    "dict[type[Node], Callable[[Compiler, Node], Evaluator]]",
    {
        tree.Constant: Compiler._constant,
        tree.Parameter: Compiler._parameter,
        tree.Property: Compiler._property,
        tree.Call: Compiler._call,
        tree.Sign: Compiler._sign,
        tree.Arithmetic: Compiler._arithmetic,
        tree.Comparison: Compiler._comparison,
        tree.Membership: Compiler._membership,
        tree.Pattern: Compiler._pattern,
        tree.NullTest: Compiler._null_test,
        tree.Existence: Compiler._existence,
        tree.Negation: Compiler._negation,
        tree.Conjunction: Compiler._conjunction,
        tree.Disjunction: Compiler._disjunction,
    },
)
