"""The table of filters and messages, row by row."""

import pytest

from partibus.domain.entity import FilterType, RuleSpec
from partibus.rules.check import check_rule
from partibus.rules.errors import EvaluationError, FilterError
from partibus.rules.ruleset import Match, RuleSet, SubscriptionRules
from partibus.rules.sql_filter import SqlFilter
from support.filters.messages import MESSAGES
from support.filters.table import ERROR, REFUSED, ROWS


def parameters() -> list[object]:
    return [
        pytest.param(
            *row,
            id=f"{number}-{row[1][:40].encode('ascii', 'backslashreplace').decode()}",
        )
        for number, row in enumerate(ROWS)
    ]


def outcome(text: str, message: str) -> object:
    try:
        sql = SqlFilter(text, {})
    except FilterError:
        return REFUSED
    try:
        return sql.matches(MESSAGES[message])
    except EvaluationError:
        return ERROR


# One by one in the rows; here so that `make rules` finds them.
@pytest.mark.rule("SQL-1", "SQL-2", "SQL-3", "SQL-4", "SQL-5", "SQL-6", "SQL-7", "SQL-8", "SQL-9")
@pytest.mark.rule("SQL-10", "SQL-11", "SQL-13", "SQL-14", "FLT-8", "FLT-9")
def test_the_table_cites_these_rules(request: pytest.FixtureRequest) -> None:
    named = {rule for mark in request.node.iter_markers("rule") for rule in mark.args}
    assert {rule for rule, *_ in ROWS if rule} == named


def test_the_table_is_as_large_as_promised() -> None:
    assert len(ROWS) >= 200
    assert len({(text, message) for _, text, message, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("rule", "text", "message", "expected"), parameters())
def test_a_filter_says_what_the_table_says(
    rule: str, text: str, message: str, expected: object
) -> None:
    assert outcome(text, message) is expected or outcome(text, message) == expected


@pytest.mark.parametrize(("rule", "text", "message", "expected"), parameters())
def test_a_set_of_rules_selects_what_the_table_says(
    rule: str, text: str, message: str, expected: object
) -> None:
    spec = RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression=text)
    if expected == REFUSED:
        with pytest.raises(FilterError):
            check_rule(spec)
        return
    check_rule(spec)
    silent = RuleSet([SubscriptionRules(7, (spec,), dead_letter_on_error=False)])
    telling = RuleSet([SubscriptionRules(7, (spec,), dead_letter_on_error=True)])
    view = MESSAGES[message]
    assert silent.select(view) == ([Match(7)] if expected is True else [])
    if expected == ERROR:
        (match,) = telling.select(view)
        assert (match.key, match.rule_name, match.action) == (7, "r", None)
        assert match.error
    else:
        assert telling.select(view) == silent.select(view)
