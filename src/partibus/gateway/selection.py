"""Which subscriptions get a message of a topic: their rules, applied.

Owns the join of a topic's fragments with `partibus.rules`: it selects by the rules of the catalog,
which are compiled when they are first needed after a change. Where no rule looks at a message,
nothing of it is decoded. Called by the fragments of one topic for every message; the node reports
changes to it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import SubscriptionSpec
from partibus.domain.sequence import client_sequence
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.topics.selection import NOBODY, Failure, Selection
from partibus.gateway.links.outcomes import HEADER_SIZE_EXCEEDED, TEXT_CHARS_MAX
from partibus.message.edits import HeaderTooLarge, rewrite
from partibus.message.view import StoredView
from partibus.rules.errors import EvaluationError
from partibus.rules.ruleset import Match, RuleSet, SubscriptionRules
from partibus.rules.view import MappingView

FILTER_FAILED: Final = "FilterException"
ACTION_FAILED: Final = "RuleActionException"
"""Dead-letter reasons (DLQ-6)."""


class TopicSelector:
    """The rules of one topic; a subscription's key is the id of its entity."""

    def __init__(self, subscriptions: Callable[[], Iterable[EntityRecord]]) -> None:
        self._subscriptions = subscriptions
        self._rules: RuleSet | None = None
        self._fixed: Selection | None = None
        """The selection for every message, when no rule looks at messages."""
        self._wants_dead_letters: dict[int, bool] = {}

    def changed(self) -> None:
        """A subscription was created, deleted or has new rules: they apply from the next message
        (FLT-10)."""
        self._rules = None

    def select(self, body: bytes, index: int, sequence: int, enqueued_ms: int) -> Selection:
        """The subscriptions that get a stored message with this number in fragment `index`."""
        rules = self._rules if self._rules is not None else self._compile()
        if self._fixed is not None:
            return self._fixed
        view = StoredView(body, client_sequence(index, sequence), enqueued_ms)
        try:
            return self._selection(view, rules.select(view))
        except DecodeError as cause:
            # The rules cannot be evaluated; it was checked when it came in.
            raise AssertionError("a stored message cannot be decoded") from cause

    def session_of(self, body: bytes) -> str | None:
        """The session that a stored message names."""
        return StoredView(body, 0, 0).properties.group_id

    def _compile(self) -> RuleSet:
        subscriptions: list[SubscriptionRules] = []
        self._wants_dead_letters = {}
        for record in self._subscriptions():
            spec = record.spec
            assert isinstance(spec, SubscriptionSpec)
            wants = spec.dead_lettering_on_filter_evaluation_exceptions
            self._wants_dead_letters[record.entity_id] = wants
            subscriptions.append(SubscriptionRules(record.entity_id, spec.rules, wants))
        rules = self._rules = RuleSet(subscriptions)
        self._fixed = None
        if not rules.needs_properties:
            keys = [match.key for match in rules.select(MappingView())]
            self._fixed = Selection(keys) if keys else NOBODY
        return rules

    def _selection(self, view: StoredView, matches: Sequence[Match]) -> Selection:
        if not matches:
            return NOBODY
        shared: list[int] = []
        rewritten: list[tuple[int, NewMessage]] = []
        failed: dict[int, Failure] = {}
        failure_count = 0
        for match in matches:
            if match.error is not None:
                failure_count += 1
                failed[match.key] = _failure(match, FILTER_FAILED, match.error)
            elif match.action is None:
                shared.append(match.key)
            else:
                try:
                    rewritten.append((match.key, rewrite(view, match)))
                except HeaderTooLarge:
                    failed.setdefault(match.key, Failure(match.key, HEADER_SIZE_EXCEEDED))
                except EvaluationError as error:
                    failure_count += 1
                    if self._wants_dead_letters[match.key]:
                        failure = _failure(match, ACTION_FAILED, error.reason)
                        failed.setdefault(match.key, failure)
        return Selection(shared, rewritten, list(failed.values()), failure_count)


def _failure(match: Match, reason: str, error: str) -> Failure:
    text = f"The rule '{match.rule_name}' could not be evaluated: {error}"
    return Failure(match.key, Overlay(reason=reason, description=text[:TEXT_CHARS_MAX]))
