"""Why a rule selects a message, or why not: the deciding terms and their values."""

import pytest

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.rules.explain import Term, explain_rule
from partibus.rules.view import MappingView

VIEW = MappingView({"color": "red", "size": 5, "note": None}, {"label": "bus"})


def sql(text: str, **more: object) -> RuleSpec:
    return RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression=text, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "outcome", "reason"),
    [
        ("color = 'red'", "true", "color = 'red' is true (color is 'red')"),
        ("size > 5", "false", "size > 5 is false (size is 5)"),
        ("missing > 5", "unknown", "missing > 5 is unknown (missing is not set)"),
        ("note = 'a'", "unknown", "note = 'a' is unknown (note is null)"),
        ("color > 5", "error", "text cannot be compared with a whole number, in: color > 5"),
        (
            "color = 'red' AND size > 5 AND missing = 1",
            "false",
            "size > 5 is false (size is 5)",
        ),
        (
            "size > 5 OR color = 'red' OR sys.Label = 'bus'",
            "true",
            "color = 'red' is true (color is 'red')",
        ),
        (
            "size > 5 OR color = 'blue'",
            "false",
            "size > 5 is false (size is 5); color = 'blue' is false (color is 'red')",
        ),
        ("NOT size > 5", "true", "size > 5 is false (size is 5)"),
        ("NOT (a = 1 OR b IS NULL)", "false", "b IS NULL is true (b is not set)"),
        (
            "color = 'red' AND missing = 1",
            "unknown",
            "missing = 1 is unknown (missing is not set)",
        ),
        ("p('size') = 4", "false", "p('size') = 4 is false (p('size') is 5)"),
        ("sys.To IS NULL", "true", "sys.To IS NULL is true (sys.To is null)"),
        ("1 = 1", "true", "1 = 1 is true"),
    ],
)
def test_the_reason_names_the_terms_that_decide(text: str, outcome: str, reason: str) -> None:
    explanation = explain_rule(sql(text), VIEW)
    assert (explanation.term.outcome, explanation.reason) == (outcome, reason)
    assert explanation.matches is (outcome == "true")


def test_a_correlation_filter_is_explained_condition_by_condition() -> None:
    conditions = CorrelationFilter(label="bus", properties={"size": 5.0, "color": "red"})
    rule = RuleSpec(name="r", filter_type=FilterType.CORRELATION, correlation=conditions)
    explanation = explain_rule(rule, VIEW)
    assert [(part.text, part.outcome) for part in explanation.term.parts] == [
        ("sys.Label = 'bus'", "true"),
        ("size = 5", "false"),
        ("color = 'red'", "true"),
    ]
    assert explanation.reason == "size = 5 is false (size is 5)"


def test_true_and_false_filters_speak_for_themselves() -> None:
    assert explain_rule(RuleSpec(), VIEW).reason == "1=1 is true"
    assert explain_rule(RuleSpec(filter_type=FilterType.FALSE), VIEW).reason == "1=0 is false"


def test_an_action_is_shown_where_the_rule_matches() -> None:
    explanation = explain_rule(sql("size = 5", action="SET size = size + 1"), VIEW)
    assert [tuple(edit) for edit in explanation.edits] == [("user", "size", 6)]
    assert not explain_rule(sql("size = 6", action="SET a = 1"), VIEW).edits
    failed = explain_rule(sql("size = 5", action="SET a = size / 0"), VIEW)
    assert failed.action_error == "division by zero, in: size / 0"


def test_a_tree_shows_what_was_not_needed_too() -> None:
    term = explain_rule(sql("size > 5 AND color = @x", parameters={"x": "red"}), VIEW).term
    assert term.parts == (
        Term("size > 5", "false", "", (("size", 5),)),
        Term("color = @x", "true", "", (("color", "red"), ("@x", "red")), (), False),
    )
