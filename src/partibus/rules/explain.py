"""Why a rule selects a message, or why it does not.

Owns the tree of terms with the result of each for this message, and the sentence about those that
decide. It evaluates with the closures of the selection, term by term, so that its result cannot
differ. Must never be called for normal traffic: it is for people and their tools.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from partibus.domain.entity import FilterType, RuleSpec
from partibus.rules import tree
from partibus.rules.action import Action, Edit
from partibus.rules.compiler import Compiler
from partibus.rules.conversion import text_of
from partibus.rules.correlation import conditions, hashed
from partibus.rules.errors import EvaluationError, RuleRefused
from partibus.rules.parser import parse_filter
from partibus.rules.tree import Node
from partibus.rules.values import kind_of
from partibus.rules.view import ABSENT, SYSTEM_NAMES, MessageView

Outcome = Literal["true", "false", "unknown", "error"]


@dataclass(slots=True, frozen=True)
class Term:
    """A condition within a filter, and its result for the message.

    `values` are the properties that it reads, as written, with their values; `decides` says whether
    this term determines the result of the whole filter.
    """

    text: str
    outcome: Outcome
    error: str = ""
    values: tuple[tuple[str, object], ...] = ()
    parts: tuple["Term", ...] = ()
    decides: bool = True


@dataclass(slots=True, frozen=True)
class Explanation:
    """The result of one rule for the message."""

    rule_name: str
    term: Term
    edits: tuple[Edit, ...] = ()
    action_error: str = ""

    @property
    def matches(self) -> bool:
        """Whether the rule selects the message."""
        return self.term.outcome == "true"

    @property
    def reason(self) -> str:
        """The deciding terms as text."""
        return "; ".join(_sentence(term) for term in _leaves(self.term))


def explain_rule(rule: RuleSpec, view: MessageView) -> Explanation:
    """The result of the rule for the message, and why; a bad rule raises `RuleRefused`."""
    term = _filter_term(rule, view)
    if term.outcome != "true" or not rule.action:
        return Explanation(rule.name, term)
    try:
        edits = Action(rule.action, rule.action_parameters).apply(view)
    except EvaluationError as error:
        return Explanation(rule.name, term, (), error.reason)
    return Explanation(rule.name, term, tuple(edits))


def _filter_term(rule: RuleSpec, view: MessageView) -> Term:
    if rule.filter_type is FilterType.CORRELATION:
        return _correlation_term(rule, view)
    if rule.filter_type is FilterType.SQL:
        compiler = Compiler(rule.sql_expression, rule.parameters)
        return _explained(parse_filter(rule.sql_expression), compiler, view)
    return Term(*(("1=1", "true") if rule.filter_type is FilterType.TRUE else ("1=0", "false")))


# --- correlation --------------------------------------------------------------------------------


def _correlation_term(rule: RuleSpec, view: MessageView) -> Term:
    if rule.correlation is None:
        raise RuleRefused("at least one condition is needed.")
    parts = []
    for (is_system, name), wanted in conditions(rule.correlation).items():
        value = view.system(name) if is_system else view.user(name)
        spelled = f"sys.{SYSTEM_NAMES[name]}" if is_system else name
        found = value is not None and value is not ABSENT and hashed(value) == hashed(wanted)
        text = f"{spelled} = {spoken(wanted)}"
        parts.append(Term(text, "true" if found else "false", "", ((spelled, value),)))
    outcome: Outcome = "true" if all(part.outcome == "true" for part in parts) else "false"
    if len(parts) == 1:
        return parts[0]
    text = " AND ".join(part.text for part in parts)
    return Term(text, outcome, "", (), _deciding(tuple(parts), outcome))


# --- SQL ------------------------------------------------------------------------------------------


def _explained(node: Node, compiler: Compiler, view: MessageView) -> Term:
    outcome, error = _outcome(node, compiler, view)
    text = compiler.term(node)
    if not isinstance(node, tree.Conjunction | tree.Disjunction | tree.Negation):
        return Term(text, outcome, error, tuple(_values(node, compiler, view)))
    parts = tuple(_explained(part, compiler, view) for part in node.parts)
    if not isinstance(node, tree.Negation):
        parts = _deciding(parts, outcome)
    return Term(text, outcome, error, (), parts)


def _outcome(node: Node, compiler: Compiler, view: MessageView) -> tuple[Outcome, str]:
    try:
        truth = compiler.condition(node)(view)
    except EvaluationError as error:
        return "error", error.reason
    if truth is None:
        return "unknown", ""
    return ("true" if truth else "false"), ""


def _deciding(parts: tuple[Term, ...], outcome: Outcome) -> tuple[Term, ...]:
    """If parts differ, those with the result of the whole decide; the first one is enough.

    If the whole is unknown, or true for AND and false for OR, several parts decide.
    """
    same = [part for part in parts if part.outcome == outcome]
    is_shared = outcome == "unknown" or len(same) == len(parts)
    deciding = same if is_shared else same[:1]
    return tuple(
        Term(p.text, p.outcome, p.error, p.values, p.parts, any(p is d for d in deciding))
        for p in parts
    )


def _values(node: Node, compiler: Compiler, view: MessageView) -> Iterator[tuple[str, object]]:
    """The properties and parameters of a term, with their values."""
    if isinstance(node, tree.Property) and not node.is_system:
        yield compiler.term(node), view.user(node.name)
    elif isinstance(node, tree.Property | tree.Parameter) or (
        isinstance(node, tree.Call) and node.parts
    ):
        try:
            yield compiler.term(node), compiler.value(node)(view)
        except EvaluationError:
            return
    for part in node.parts:
        yield from _values(part, compiler, view)


# --- words ----------------------------------------------------------------------------------------


def _leaves(term: Term) -> Iterator[Term]:
    deciding = [part for part in term.parts if part.decides]
    if not deciding:
        yield term
    for part in deciding:
        yield from _leaves(part)


def _sentence(term: Term) -> str:
    if term.outcome == "error":
        return term.error
    values = ", ".join(f"{name} is {spoken(value)}" for name, value in term.values)
    return f"{term.text} is {term.outcome}" + (f" ({values})" if values else "")


def spoken(value: object) -> str:
    """A value as text for people."""
    if value is ABSENT:
        return "not set"
    if value is None:
        return "null"
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    text = text_of(value)
    return text if text is not None else kind_of(value)
