"""The rules of all subscriptions of a topic, as one question: who gets this message?

Owns FLT-3 to FLT-5 and FLT-9: how the rules of a subscription become copies. Rules are compiled
once, when a set is made; a change of rules makes a new set. It must never raise because of a
message, or because of a stored rule that this release cannot read. Called by the topic for every
message.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.rules.action import Action
from partibus.rules.correlation import CorrelationIndex
from partibus.rules.errors import RuleRefused
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.sql_index import Finding, SqlIndex
from partibus.rules.view import MessageView


class SubscriptionRules(NamedTuple):
    """The rules of one subscription, under a key that the caller chooses."""

    key: int
    rules: tuple[RuleSpec, ...]
    dead_letter_on_error: bool = True


class Match(NamedTuple):
    """One copy for the subscription `key`.

    Without an action `rule_name` is None. With one, it is the rule's name, which the copy
    carries as the property RuleName (FLT-4). With an `error` the copy goes to the
    subscription's dead-letter queue: the rule `rule_name` could not be evaluated (FLT-9).
    """

    key: int
    rule_name: str | None = None
    action: Action | None = None
    error: str | None = None


class _Rule:
    """One rule of one subscription; `place` orders the copies of a message."""

    __slots__ = ("dead_letter", "has_action", "match", "name", "place")

    def __init__(
        self, place: int, subscription: SubscriptionRules, spec: RuleSpec, action: Action | None
    ) -> None:
        self.place = place
        self.name = spec.name
        self.dead_letter = subscription.dead_letter_on_error
        self.has_action = bool(spec.action)
        self.match = Match(
            subscription.key, spec.name if action is not None else None, action, None
        )


_PLACE: Final = attrgetter("place")


class RuleSet:
    """All rules of a topic's subscriptions, compiled."""

    __slots__ = ("_broken", "_by_correlation", "_by_sql", "_certain", "needs_properties")

    def __init__(self, subscriptions: Sequence[SubscriptionRules]) -> None:
        self._certain: list[_Rule] = []
        self._broken: list[Finding[_Rule]] = []
        correlations: list[tuple[CorrelationFilter, _Rule]] = []
        sqls: dict[tuple[object, ...], tuple[SqlFilter, list[_Rule]]] = {}
        place = 0
        for subscription in subscriptions:
            for spec in subscription.rules:
                place += 1
                self._sort(place, subscription, spec, correlations, sqls)
        self._certain = list(_without_twins(self._certain))
        served = {rule.match.key for rule in self._certain if not rule.has_action}

        def needed(rule: _Rule) -> bool:
            """Whether it can add a copy where a subscription gets every message anyway (FLT-3)."""
            return rule.has_action or rule.match.key not in served

        self._by_correlation = CorrelationIndex((f, r) for f, r in correlations if needed(r))
        self._by_sql = SqlIndex(
            (sql, kept) for sql, rules in sqls.values() if (kept := list(filter(needed, rules)))
        )
        self._broken = [finding for finding in self._broken if needed(finding[0])]
        self.needs_properties = len(self._by_correlation) + len(self._by_sql) > 0 or any(
            rule.has_action for rule in self._certain
        )
        """Whether `select` or an action looks at the message at all."""

    def _sort(
        self,
        place: int,
        subscription: SubscriptionRules,
        spec: RuleSpec,
        correlations: list[tuple[CorrelationFilter, _Rule]],
        sqls: dict[tuple[object, ...], tuple[SqlFilter, list[_Rule]]],
    ) -> None:
        """Put a rule into the index of its kind."""
        try:
            action = Action(spec.action, spec.action_parameters) if spec.action else None
            rule = _Rule(place, subscription, spec, action)
            if spec.filter_type is FilterType.TRUE:
                self._certain.append(rule)
            elif spec.filter_type is FilterType.CORRELATION and spec.correlation is not None:
                correlations.append((spec.correlation, rule))
            elif spec.filter_type is FilterType.SQL:
                self._sort_sql(spec, rule, sqls)
        except RuleRefused as refused:
            rule = _Rule(place, subscription, spec, None)
            self._broken.append((rule, f"The rule '{spec.name}' cannot be used: {refused.text}"))

    def _sort_sql(
        self,
        spec: RuleSpec,
        rule: _Rule,
        sqls: dict[tuple[object, ...], tuple[SqlFilter, list[_Rule]]],
    ) -> None:
        """Rules with the same filter share its evaluation."""
        typed = sorted((n, type(v).__name__, v) for n, v in spec.parameters.items())
        same = (spec.sql_expression, *typed)
        known = sqls.get(same)
        if known is not None:
            known[1].append(rule)
            return
        sql = SqlFilter(spec.sql_expression, spec.parameters)
        if sql.constant is None:
            sqls[same] = (sql, [rule])
        elif sql.constant:
            self._certain.append(rule)

    def select(self, view: MessageView) -> list[Match]:
        """The copies to make of this message, in the order of subscriptions and rules."""
        found: list[_Rule] = self._by_correlation.find(view)
        errors: list[Finding[_Rule]] = []
        self._by_sql.find(view, found, errors)
        if self._broken:
            errors += self._broken
        if found:
            found += self._certain
            found.sort(key=_PLACE)
            matches = [rule.match for rule in _without_twins(found)]
        else:
            matches = [rule.match for rule in self._certain]
        return _with_errors(matches, errors) if errors else matches


def _without_twins(rules: Iterable[_Rule]) -> Iterable[_Rule]:
    """Of the rules without an action, only one for each subscription (FLT-3)."""
    served: set[int] = set()
    for rule in rules:
        if not rule.has_action:
            if rule.match.key in served:
                continue
            served.add(rule.match.key)
        yield rule


def _with_errors(matches: list[Match], errors: list[Finding[_Rule]]) -> list[Match]:
    """One dead letter for a subscription that would otherwise miss a copy (FLT-9).

    A failed rule without an action does not matter if another one without an action matches: the
    subscription has its copy.
    """
    reported = {match.key for match in matches if match.action is None}
    failed: set[int] = set()
    errors.sort(key=lambda finding: finding[0].place)
    for rule, reason in errors:
        key = rule.match.key
        if not rule.dead_letter or key in failed or (not rule.has_action and key in reported):
            continue
        failed.add(key)
        matches.append(Match(key, rule.name, None, reason))
    return matches
