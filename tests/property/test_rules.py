"""Filters and actions under random texts, random expressions and random messages."""

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.rules.action import Action, Edit
from partibus.rules.correlation import CorrelationIndex
from partibus.rules.errors import EvaluationError, FilterError, RuleActionError
from partibus.rules.explain import explain_rule
from partibus.rules.ruleset import Match, RuleSet, SubscriptionRules
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.view import ABSENT, MappingView
from support.filters import reference
from support.filters.table import ROWS
from support.filters.trees import (
    conditions,
    expressions,
    system_properties,
    texts,
    user_properties,
    values,
)

TEXTS = [text for _, text, _, _ in ROWS]
ACTIONS = [
    "SET a = 1",
    "SET a = a + 1; REMOVE b; SET sys.Label = 'x' + c",
    "REMOVE [with ]]], SET sys.TimeToLive = 'PT5M'; set c = newid();",
    "SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc SET b = p('a')",
]


def mutated(pool: list[str]) -> st.SearchStrategy[str]:
    """A text of the pool with pieces cut out, doubled, replaced, or of two texts."""

    @st.composite
    def build(draw: st.DrawFn) -> str:
        text = draw(st.sampled_from(pool))
        for _ in range(draw(st.integers(1, 4))):
            start = draw(st.integers(0, len(text)))
            end = draw(st.integers(start, min(len(text), start + 8)))
            piece = draw(
                st.one_of(
                    st.just(""),
                    st.just(text[start:end] * 2),
                    st.text(max_size=3),
                    st.sampled_from(list("()[]'\"@.,;=<>!+-*/% \n")),
                    st.sampled_from([" NOT ", " AND ", " IN (", "sys.", "NULL", "p(", "1E9", "'"]),
                    st.sampled_from(pool),
                )
            )
            text = text[:start] + piece + text[end:]
        return text

    return build()


def outcome_of(text: str, view: MappingView) -> object:
    try:
        return SqlFilter(text, {}).matches(view)
    except EvaluationError:
        return "error"


@settings(deadline=None, max_examples=400)
@given(text=st.one_of(st.text(), mutated(TEXTS)), user=user_properties, system=system_properties)
@example(text="(" * 1024, user={}, system={})
@example(text="NOT " * 255 + "a", user={}, system={})
@example(text="-" * 1020 + "1=1", user={}, system={})
@example(text="p(" * 300 + "'a'" + ")" * 300 + "=1", user={}, system={})
@example(text="a" + "+a" * 510 + "=1", user={"a": "x" * 1000}, system={})
@example(text="\ud800 = 1", user={}, system={})
def test_a_text_is_refused_or_evaluated_and_nothing_else(
    text: str, user: dict[str, Any], system: dict[str, Any]
) -> None:
    try:
        outcome = outcome_of(text, MappingView(user, system))
    except FilterError as refused:
        assert refused.http_status == 400
        assert 0 <= refused.start <= max(len(text), 1)
    else:
        assert outcome in (True, False, None, "error")


@settings(deadline=None, max_examples=250)
@given(
    text=st.one_of(st.text(), mutated(ACTIONS + TEXTS), st.sampled_from(ACTIONS)),
    user=user_properties,
    system=system_properties,
)
@example(text=";".join(["SET a = a + a"] * 32), user={"a": "xy"}, system={})
def test_an_action_is_refused_or_makes_edits_and_nothing_else(
    text: str, user: dict[str, Any], system: dict[str, Any]
) -> None:
    try:
        edits = Action(text, {}).apply(MappingView(user, system))
    except (RuleActionError, EvaluationError):
        return
    assert edits
    assert all(isinstance(edit, Edit) for edit in edits)
    assert len({(edit.scope, edit.name.lower()) for edit in edits}) == len(edits)


@pytest.mark.rule("SQL-5", "SQL-7", "SQL-8", "SQL-9")
@settings(deadline=None, max_examples=800)
@given(tree=conditions, user=user_properties, system=system_properties)
@example(tree=("cmp", "=", ("user", "a"), ("neg", ("neg", ("lit", -(2**63))))), user={}, system={})
def test_an_expression_is_what_the_reference_says(
    tree: reference.Tree, user: dict[str, Any], system: dict[str, Any]
) -> None:
    text = reference.render(tree)
    assume(len(text) <= 1024)
    try:
        expected = reference.evaluate(tree, user, system)
        expected = reference._truth(expected)
    except reference.Failed:
        expected = "error"
    view = MappingView(user, system)
    try:
        outcome = outcome_of(text, view)
    except FilterError:
        assert reference.fails_for_every_message(tree), text
        return
    assert outcome == expected, text
    rule = RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression=text)
    words = {True: "true", False: "false", None: "unknown", "error": "error"}
    assert explain_rule(rule, view).term.outcome == words[outcome]


@settings(deadline=None, max_examples=600)
@given(tree=expressions, user=user_properties, system=system_properties)
def test_an_action_sets_what_the_reference_says(
    tree: reference.Tree, user: dict[str, Any], system: dict[str, Any]
) -> None:
    text = f"SET new = {reference.render(tree)}"
    assume(len(text) <= 1024)
    try:
        expected = reference.evaluate(tree, user, system)
        (edit,) = Action(text, {}).apply(MappingView(user, system))
    except reference.Failed:
        with pytest.raises((RuleActionError, EvaluationError)):
            Action(text, {}).apply(MappingView(user, system))
        return
    except RuleActionError:
        assert reference.fails_for_every_message(tree)
        return
    assert edit.value == expected or (edit.value != edit.value and expected != expected)


# --- correlation --------------------------------------------------------------------------------

FIELDS = ("label", "message_id", "session_id", "to")
names = st.sampled_from(["a", "A", "b", "c", "d"])
wanted = st.one_of(st.sampled_from(["x", "y", "X"]), st.integers(0, 1), st.booleans(), st.just(1.0))


@st.composite
def correlation_filters(draw: st.DrawFn) -> CorrelationFilter:
    system = draw(st.dictionaries(st.sampled_from(FIELDS), st.sampled_from("xyX"), max_size=2))
    user = draw(st.dictionaries(names, wanted, max_size=3))
    user = {name: value for name, value in user.items() if name != "A" or "a" not in user}
    assume(system or user)
    return CorrelationFilter(**system, properties=user)  # type: ignore[arg-type]


messages = st.tuples(
    st.dictionaries(st.sampled_from("abcd"), st.one_of(wanted, values)),
    st.dictionaries(
        st.sampled_from([field.replace("_", "") for field in FIELDS]), st.sampled_from("xyX")
    ),
)


def correlates(filter_: CorrelationFilter, view: MappingView) -> bool:
    """COR-1 and COR-2, condition by condition."""
    for field in FIELDS:
        value = getattr(filter_, field)
        if value is not None and view.system(field.replace("_", "")) != value:
            return False
    for name, value in filter_.properties.items():
        found = view.user(name.lower())
        if found is ABSENT or type(found) is not type(value) or found != value:
            return False
    return True


@pytest.mark.rule("COR-1", "COR-2")
@settings(deadline=None, max_examples=500)
@given(filters=st.lists(correlation_filters(), max_size=40), message=messages)
def test_the_index_finds_what_asking_every_filter_finds(
    filters: list[CorrelationFilter], message: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    view = MappingView(*message)
    index = CorrelationIndex((filter_, number) for number, filter_ in enumerate(filters))
    asked = [number for number, filter_ in enumerate(filters) if correlates(filter_, view)]
    assert sorted(index.find(view)) == asked


# --- sets of rules --------------------------------------------------------------------------------

SHARED = [
    "a = 'x'",
    "a = 'y'",
    "a IN ('x', 'y')",
    "a = 'x' AND b > 1",
    "b = 'x' OR a = 1",
    "sys.Label = 'x'",
    "sys.Label = 'x' AND a > 1",
    "NOT a = 'x'",
    "1=1",
    "1=0",
    "b LIKE 'x%'",
]


@st.composite
def rules(draw: st.DrawFn) -> RuleSpec:
    kind = draw(st.sampled_from(list(FilterType)))
    correlation = draw(correlation_filters()) if kind is FilterType.CORRELATION else None
    return RuleSpec(
        name=draw(st.sampled_from("rstu")),
        filter_type=kind,
        sql_expression=draw(st.sampled_from(SHARED)) if kind is FilterType.SQL else "1=1",
        correlation=correlation,
        action=draw(st.sampled_from(["", "", "SET a = 1"])),
    )


def asked_one_by_one(subscription: SubscriptionRules, view: MappingView) -> list[tuple[Any, ...]]:
    """FLT-3, FLT-4 and FLT-9 as they are written."""
    plain, copies, failures, plain_failures = False, [], [], []
    for rule in subscription.rules:
        outcome: object = rule.filter_type is FilterType.TRUE
        if rule.correlation is not None:
            outcome = correlates(rule.correlation, view)
        elif rule.filter_type is FilterType.SQL:
            outcome = outcome_of(rule.sql_expression, view)
        if outcome == "error":
            (failures if rule.action else plain_failures).append(rule.name)
        elif outcome is True and rule.action:
            copies.append((subscription.key, rule.name, rule.action, False))
        elif outcome is True:
            plain = True
    if plain:
        copies.append((subscription.key, None, None, False))
    else:
        failures += plain_failures
    if failures and subscription.dead_letter_on_error:
        copies.append((subscription.key, "?", None, True))
    return copies


def shape(match: Match) -> tuple[Any, ...]:
    action = match.action.text if match.action else None
    return (match.key, "?" if match.error else match.rule_name, action, match.error is not None)


@pytest.mark.rule("FLT-3", "FLT-4", "FLT-5", "FLT-9")
@settings(deadline=None, max_examples=500)
@given(
    subscriptions=st.lists(st.tuples(st.lists(rules(), max_size=4), st.booleans()), max_size=8),
    user=st.dictionaries(st.sampled_from("abcd"), st.one_of(wanted, texts)),
    label=st.none() | st.sampled_from("xyX"),
)
def test_a_set_selects_what_asking_every_rule_selects(
    subscriptions: list[tuple[list[RuleSpec], bool]], user: dict[str, Any], label: str | None
) -> None:
    view = MappingView(user, {"label": label})
    keyed = [
        SubscriptionRules(key, tuple(specs), flag)
        for key, (specs, flag) in enumerate(subscriptions)
    ]
    found = sorted(map(shape, RuleSet(keyed).select(view)), key=repr)
    expected = [copy for subscription in keyed for copy in asked_one_by_one(subscription, view)]
    assert found == sorted(expected, key=repr)
