"""What a refusal says: what is wrong, where, and what to write instead."""

import pytest

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.domain.errors import ArgumentError
from partibus.rules.check import check_rule
from partibus.rules.errors import CorrelationError, FilterError, RuleActionError, excerpt


def refusal(text: str) -> FilterError:
    rule = RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression=text)
    with pytest.raises(FilterError) as refused:
        check_rule(rule)
    return refused.value


@pytest.mark.rule("FLT-8")
@pytest.mark.parametrize(
    ("text", "marked", "complaint"),
    [
        ("color == 'red'", "==", "== is not an operator; write =."),
        ("a = 1 && b = 2", "&&", "&& is not an operator; write AND."),
        ("a = 'x", "'x", "The string that begins here has no closing quote (')."),
        ("[a = 1", "[a = 1", "The name that begins here has no closing bracket (])."),
        ("a = \u2018x\u2019", "\u2018", "\u2018 is not a quote; use ' around strings."),
        ("sys.Lable = 'x'", "sys.Lable", "There is no system property Lable; did you mean"),
        ("foo.bar = 1", "foo.bar", "foo is not a scope; write sys. or user."),
        ("in = 1", "in", "A property of that name is written [in]."),
        ("_a = 1", "_", "A name begins with a letter; write [_name]"),
        ("a ! = 1", "!", "Write != or <> for 'is not'"),
        ("a = 1 b", "b", "b is not allowed here; expected an operator or the end."),
        ("a IN (1 2)", "2", "2 is not allowed here; expected an operator, ',' or ')'."),
        ("a IS 5", "5", "5 is not allowed here; expected NOT or NULL."),
        ("(a = 1) + 1 = 2", "a = 1", "A condition cannot be used as a value."),
        ("a = 1 AND 5", "5", "A condition is needed here, for example a comparison."),
        ("a = @x", "@x", "No value was given for @x."),
        ("lower(a) = 'x'", "lower(a)", "There is no function lower; use newid()"),
        ("p() = 1", "p()", "p() takes one argument."),
        ("a = 9223372036854775808", "9223372036854775808", "A whole number has at most 64 bits."),
        ("a = 1E999", "1E999", "The number is larger than a double can be."),
        ("b OR a = 1 / 0", "1 / 0", "This cannot be evaluated: division by zero, in: 1 / 0."),
        ("a LIKE 'x' ESCAPE 'yy'", "a LIKE 'x' ESCAPE 'yy'", "the escape is not exactly one"),
        ("1 IS NULL", "1", "Only a property can be tested for NULL."),
    ],
)
def test_a_refusal_points_at_the_place(text: str, marked: str, complaint: str) -> None:
    refused = refusal(text)
    assert complaint in refused.complaint
    assert text[refused.start : refused.end] == marked
    assert f"At character {refused.start + 1}:\n" in refused.reason
    assert refused.reason.splitlines()[-1].strip() == "^" * len(marked)


def test_a_text_that_ends_too_early_is_told_at_its_end() -> None:
    refused = refusal("color = 'red' AND ")
    assert refused.start == len("color = 'red' AND")
    assert "The expression ends too early" in refused.complaint


@pytest.mark.rule("SQL-12", "QTA-13")
def test_a_filter_is_bounded_in_length_and_depth() -> None:
    longest = "a = '" + "x" * 1018 + "'"
    assert len(longest) == 1024
    check_rule(RuleSpec(filter_type=FilterType.SQL, sql_expression=longest))
    assert "At most 1024 characters" in refusal(longest + " ").complaint
    check_rule(RuleSpec(filter_type=FilterType.SQL, sql_expression="(" * 500 + "a" + ")" * 500))
    check_rule(RuleSpec(filter_type=FilterType.SQL, sql_expression="NOT " * 60 + "a"))
    assert "nested more than 64 levels" in refusal("NOT " * 70 + "a").complaint


def test_refusals_travel_as_bad_arguments() -> None:
    refused = refusal("color ==")
    assert isinstance(refused, ArgumentError)
    assert (refused.http_status, refused.condition) == (400, "com.microsoft:argument-error")
    assert (refused.retryable, refused.property_name) == (False, "sql_filter")


@pytest.mark.rule("COR-1")
def test_a_correlation_filter_asks_for_something_once() -> None:
    for conditions in (None, CorrelationFilter()):
        rule = RuleSpec(filter_type=FilterType.CORRELATION, correlation=conditions)
        with pytest.raises(CorrelationError, match="at least one condition"):
            check_rule(rule)
    twice = CorrelationFilter(properties={"a": 1, "A": 2})
    with pytest.raises(CorrelationError, match="named twice"):
        check_rule(RuleSpec(filter_type=FilterType.CORRELATION, correlation=twice))


def test_parameters_have_bounds() -> None:
    def with_value(value: str | int) -> RuleSpec:
        return RuleSpec(
            filter_type=FilterType.SQL, sql_expression="a = @x", parameters={"x": value}
        )

    check_rule(with_value(2**63 - 1))
    with pytest.raises(FilterError, match="64 bits"):
        check_rule(with_value(2**63))
    with pytest.raises(FilterError, match="32768 characters"):
        check_rule(with_value("x" * 32769))
    with pytest.raises(RuleActionError, match="64 bits"):
        check_rule(RuleSpec(action="SET a = @x", action_parameters={"x": 2**63}))


def test_an_excerpt_of_a_long_text_shows_the_place() -> None:
    text = "a" * 100 + "!" + "b" * 100
    shown, marks = excerpt(text, 100, 101).splitlines()
    assert shown.startswith("  ...")
    assert shown.endswith("...")
    assert shown[marks.index("^")] == "!"
    assert excerpt("a\nb", 2, 3) == "  a b\n    ^"
