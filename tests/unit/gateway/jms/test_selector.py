"""JMS selectors in the words of the filter language, and what they select."""

import pytest

from partibus.amqp.codec.types import Described, Symbol, ULong
from partibus.amqp.terminus import Source
from partibus.domain.errors import ArgumentError, NotImplementedHere
from partibus.gateway.jms.matching import Selector
from partibus.gateway.jms.selector import selector_of, to_sql
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.view import MappingView

pytestmark = pytest.mark.rule("JMS-5")


@pytest.mark.parametrize(
    ("selector", "expression"),
    [
        ("color = 'red'", "[color] = 'red'"),
        ("JMSType='a''b' and x<>1", "sys.Label = 'a''b' AND [x] <> 1"),
        ("JMSXGroupID IS NOT NULL", "sys.SessionId IS NOT NULL"),
        ("size > 10L OR size < 1.5e3d", "[size] > 10 OR [size] < 1.5e3"),
        ("a BETWEEN 1 AND 2", "( [a] >= 1 AND [a] <= 2 )"),
        ("x = 1 AND a NOT BETWEEN b-1 AND (b + 1) OR y = 2",
         "[x] = 1 AND NOT ( [a] >= [b] - 1 AND [a] <= ( [b] + 1 ) ) OR [y] = 2"),
        ("(a BETWEEN 1 AND 2) AND b BETWEEN 3 AND 4",
         "( ( [a] >= 1 AND [a] <= 2 ) ) AND ( [b] >= 3 AND [b] <= 4 )"),
        ("$price.in$ LIKE '10!%%' ESCAPE '!'", "[$price.in$] LIKE '10!%%' ESCAPE '!'"),
        ("order = 1 AND set = true", "[order] = 1 AND [set] = TRUE"),
    ],
)  # fmt: skip
def test_the_words_of_a_selector(selector: str, expression: str) -> None:
    assert to_sql(selector) == expression
    SqlFilter(expression, {})


def test_an_interval_includes_both_ends() -> None:
    wanted = SqlFilter(to_sql("size BETWEEN 5 AND 7"), {})
    chosen = [n for n in range(10) if wanted.matches(MappingView(user={"size": n})) is True]
    assert chosen == [5, 6, 7]


@pytest.mark.parametrize(
    "selector",
    [
        "a = ; b",
        "a = 'open",
        "JMSPriority > 4",
        "a BETWEEN 1",
        "BETWEEN 1 AND 2",
        "a BETWEEN AND 2",
    ],
)
def test_what_is_not_a_selector(selector: str) -> None:
    with pytest.raises(ArgumentError):
        to_sql(selector)


@pytest.mark.parametrize("expression", ["[a] =", "[a] = 1 AND", "f(1)"])
def test_a_selector_that_is_no_condition(expression: str) -> None:
    with pytest.raises(ArgumentError, match="not valid"):
        Selector(expression)


def source(filters: dict[str, object]) -> Source:
    return Source("q", 0, False, filters, [])


def test_the_filters_of_an_attach() -> None:
    code, name = ULong(0x468C00000004), Symbol("apache.org:selector-filter:string")
    assert selector_of(source({})) is None
    assert selector_of(source({"jms-selector": Described(code, "a = 1")})) == "[a] = 1"
    assert selector_of(source({"other": Described(code, "a = 1")})) == "[a] = 1"
    assert selector_of(source({str(name): Described(name, "a = 1")})) == "[a] = 1"
    with pytest.raises(ArgumentError):
        selector_of(source({"jms-selector": Described(code, 5)}))
    with pytest.raises(NotImplementedHere):
        selector_of(source({"no-local": Described(ULong(0x468C00000003), [])}))
