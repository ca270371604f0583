"""Which subscriptions a message reaches, and why.

Owns the answer for one subscription and its JSON; `explain` evaluates each rule. Called by
`partibus rule test` and `rule explain`, and by the console.
"""

from collections.abc import Sequence
from typing import NamedTuple

from partibus.domain.entity import SubscriptionSpec
from partibus.rules.action import REMOVED
from partibus.rules.errors import EvaluationError
from partibus.rules.explain import Explanation, Term, explain_rule, spoken
from partibus.rules.ruleset import Match, RuleSet, SubscriptionRules
from partibus.rules.view import ABSENT, MessageView


class Reach(NamedTuple):
    """A subscription, its copies, and the result of each of its rules."""

    path: str
    matches: Sequence[Match]
    explanations: Sequence[Explanation]

    @property
    def result(self) -> str:
        """The copies as text."""
        dead = sum(match.error is not None for match in self.matches)
        copies = len(self.matches) - dead
        if not self.matches:
            return "no"
        reported = [f"{copies} copies" if copies > 1 else "yes"] if copies else []
        return ", ".join([*reported, "dead letter"] if dead else reported)

    @property
    def reason(self) -> str:
        """The reason, from the most relevant rule."""
        if not self.explanations:
            return "it has no rules"
        matching = [e for e in self.explanations if e.matches]
        failing = [e for e in self.explanations if e.term.outcome == "error"]
        chosen = matching or failing or self.explanations
        return " | ".join(f"{e.rule_name}: {e.reason}" for e in chosen)


def reach_of(path: str, spec: SubscriptionSpec, view: MessageView) -> Reach:
    """The result of a subscription for a message."""
    rules = SubscriptionRules(0, spec.rules, spec.dead_lettering_on_filter_evaluation_exceptions)
    return Reach(path, copies_of(rules, view), [explain_rule(rule, view) for rule in spec.rules])


def copies_of(rules: SubscriptionRules, view: MessageView) -> list[Match]:
    """The copies with their actions applied; one whose action fails is a dead letter (FLT-9)."""
    copies = []
    for match in RuleSet([rules]).select(view):
        try:
            if match.action is not None:
                match.action.apply(view)
            copies.append(match)
        except EvaluationError as error:
            if rules.dead_letter_on_error:
                copies.append(Match(match.key, match.rule_name, None, error.reason))
    return copies


def reach_json(reach: Reach) -> dict[str, object]:
    """A subscription, its copies and its rules."""
    return {
        "subscription": reach.path,
        "receives": any(match.error is None for match in reach.matches),
        "copies": [
            {"rule": match.rule_name, "dead_letter": match.error is not None, "error": match.error}
            for match in reach.matches
        ],
        "rules": [_explanation_json(explanation) for explanation in reach.explanations],
    }


def _explanation_json(explanation: Explanation) -> dict[str, object]:
    return {
        "name": explanation.rule_name,
        "matches": explanation.matches,
        "reason": explanation.reason,
        "term": _term_json(explanation.term),
        "edits": [
            {"scope": e.scope, "name": e.name, "removed": True}
            if e.value is REMOVED
            else {"scope": e.scope, "name": e.name, "value": _plain(e.value)}
            for e in explanation.edits
        ],
        "action_error": explanation.action_error or None,
    }


def _term_json(term: Term) -> dict[str, object]:
    return {
        "text": term.text,
        "outcome": term.outcome,
        "decides": term.decides,
        "error": term.error or None,
        "values": [
            {"name": name, "is_set": value is not ABSENT, "value": _plain(value)}
            for name, value in term.values
        ],
        "parts": [_term_json(part) for part in term.parts],
    }


def _plain(value: object) -> object:
    """A value in JSON; types that JSON lacks become text."""
    if value is ABSENT:
        return None
    return value if value is None or isinstance(value, str | int | float) else spoken(value)
