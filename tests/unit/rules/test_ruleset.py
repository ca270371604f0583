"""From the rules of subscriptions to copies of a message."""

import pytest

from partibus.domain.entity import CorrelationFilter, FilterType, RuleSpec
from partibus.rules.ruleset import Match, RuleSet, SubscriptionRules
from partibus.rules.view import MappingView

RED = MappingView({"color": "red", "size": 5}, {"label": "bus"})


def sql(text: str, name: str = "r", action: str = "", **parameters: int) -> RuleSpec:
    return RuleSpec(
        name=name,
        filter_type=FilterType.SQL,
        sql_expression=text,
        action=action,
        parameters=dict(parameters),
    )


def correlation(name: str = "r", action: str = "", **conditions: object) -> RuleSpec:
    made = CorrelationFilter(**conditions)  # type: ignore[arg-type]
    return RuleSpec(name=name, filter_type=FilterType.CORRELATION, correlation=made, action=action)


def selected(*rules: RuleSpec, flag: bool = True) -> list[tuple[object, ...]]:
    matches = RuleSet([SubscriptionRules(1, rules, flag)]).select(RED)
    assert all(match.key == 1 for match in matches)
    return [(m.rule_name, m.action.text if m.action else None, m.error) for m in matches]


PLAIN = (None, None, None)


@pytest.mark.rule("FLT-3")
def test_rules_without_an_action_give_one_copy() -> None:
    assert selected(sql("color='red'", "a"), sql("size=5", "b"), RuleSpec(name="c")) == [PLAIN]
    assert selected(correlation("a", label="bus"), sql("size=5", "b")) == [PLAIN]
    assert selected(RuleSpec(name="a"), RuleSpec(name="b")) == [PLAIN]


@pytest.mark.rule("FLT-4")
def test_five_matching_rules_of_which_two_have_actions_give_three_copies() -> None:
    rules = (
        RuleSpec(name="one"),
        sql("color='red'", "two", "SET a = 2"),
        correlation("three", label="bus"),
        sql("size > 1", "four"),
        correlation("five", action="SET a = 5", label="bus"),
    )
    assert selected(*rules) == [PLAIN, ("two", "SET a = 2", None), ("five", "SET a = 5", None)]


@pytest.mark.rule("FLT-5")
def test_without_rules_nothing_is_selected() -> None:
    assert selected() == []
    assert selected(sql("color='blue'")) == []


@pytest.mark.rule("FLT-7")
def test_the_true_filter_takes_all_and_the_false_filter_nothing() -> None:
    assert selected(RuleSpec()) == [PLAIN]
    assert selected(RuleSpec(filter_type=FilterType.FALSE)) == []
    assert selected(sql("1=1")) == [PLAIN]
    assert selected(sql("1=0")) == []
    assert selected(RuleSpec(action="SET a = 1")) == [("$Default", "SET a = 1", None)]


def test_a_set_that_asks_nothing_needs_no_properties() -> None:
    def needs(*rules: RuleSpec) -> bool:
        return RuleSet([SubscriptionRules(1, rules)]).needs_properties

    assert not needs()
    assert not needs(RuleSpec(), RuleSpec(name="f", filter_type=FilterType.FALSE))
    assert not needs(sql("1=1"), sql("1=0"), sql("2 > @x", x=1))
    assert not needs(RuleSpec(), sql("color='red'"))
    assert needs(sql("color='red'"))
    assert needs(correlation(label="x"))
    assert needs(RuleSpec(action="SET a = 1"))
    assert needs(RuleSpec(), sql("color='red'", action="SET a = 1"))


@pytest.mark.rule("FLT-9")
def test_an_error_is_a_dead_letter_where_the_flag_is_on_and_no_match_elsewhere() -> None:
    ((name, action, error),) = selected(sql("color > 5", "bad"))
    assert (name, action) == ("bad", None)
    assert error == "text cannot be compared with a whole number, in: color > 5"
    assert selected(sql("color > 5", "bad"), flag=False) == []


@pytest.mark.rule("FLT-9")
def test_an_error_beside_a_match_is_told_only_where_a_copy_would_be_missing() -> None:
    bad = sql("color > 5", "bad")
    assert selected(bad, sql("size = 5")) == [PLAIN]
    assert selected(RuleSpec(), bad) == [PLAIN]
    bad_action = sql("color > 5", "bad", "SET a = 1")
    assert [row[0] for row in selected(sql("size = 5"), bad_action)] == [None, "bad"]
    assert [row[0] for row in selected(bad, sql("size = 5", "x", "SET a = 1"))] == ["x", "bad"]
    assert [row[0] for row in selected(bad, sql("color < 5", "worse"))] == ["bad"]


@pytest.mark.rule("COR-2")
def test_correlation_is_by_type_and_case() -> None:
    for properties, expected in (
        ({"size": 5}, [PLAIN]),
        ({"SIZE": 5}, [PLAIN]),
        ({"size": 5.0}, []),
        ({"size": "5"}, []),
        ({"size": True}, []),
        ({"color": "Red"}, []),
        ({"color": "red", "missing": 1}, []),
    ):
        assert selected(correlation(properties=properties)) == expected
    assert selected(correlation(label="Bus")) == []


def test_copies_come_in_the_order_of_subscriptions_and_rules() -> None:
    rules = (sql("size=5", "b", "SET x=1"), correlation("a", action="SET x=2", label="bus"))
    subscriptions = [SubscriptionRules(key, rules) for key in (9, 3)]
    subscriptions.insert(1, SubscriptionRules(5, (RuleSpec(),)))
    found = RuleSet(subscriptions).select(RED)
    assert [(m.key, m.rule_name) for m in found] == [
        (9, "b"),
        (9, "a"),
        (5, None),
        (3, "b"),
        (3, "a"),
    ]


def test_the_same_text_with_other_parameters_is_another_filter() -> None:
    keyed = [SubscriptionRules(n, (sql("size > @x", x=n),)) for n in range(8)]
    assert [match.key for match in RuleSet(keyed).select(RED)] == [0, 1, 2, 3, 4]


def test_the_same_filter_is_evaluated_once() -> None:
    class Counting(MappingView):
        asked = 0

        def user(self, name_lower: str) -> object:
            Counting.asked += 1
            return super().user(name_lower)

    keyed = [SubscriptionRules(n, (sql("size > 1"),)) for n in range(100)]
    assert len(RuleSet(keyed).select(Counting({"size": 5}))) == 100
    assert Counting.asked == 1


@pytest.mark.rule("COR-3")
def test_subscriptions_that_do_not_match_are_not_asked() -> None:
    class Counting(MappingView):
        asked = 0

        def user(self, name_lower: str) -> object:
            Counting.asked += 1
            return super().user(name_lower)

    def asked(make: object, count: int) -> int:
        Counting.asked = 0
        rules = RuleSet([SubscriptionRules(n, (make(n),)) for n in range(count)])  # type: ignore[operator]
        assert [match.key for match in rules.select(Counting({"store": "S1", "kind": "o"}))] == [1]
        return Counting.asked

    for make in (
        lambda n: correlation(properties={"store": f"S{n}"}),
        lambda n: correlation(properties={"kind": "o", "store": f"S{n}"}),
        lambda n: correlation(properties={"kind": "o", "store" if n == 1 else f"f{n}": "S1"}),
        lambda n: sql(f"store = 'S{n}'"),
        lambda n: sql(f"store = 'S{n}' AND kind = 'o'"),
        lambda n: sql(f"store IN ('S{n}', 'T{n}') AND kind = 'o'"),
    ):
        assert asked(make, 3) == asked(make, 1000)


def test_a_stored_rule_that_cannot_be_read_fails_and_the_others_work() -> None:
    bad = sql("color ==", "bad")
    ((name, _, error),) = selected(bad)
    assert name == "bad"
    assert error is not None
    assert "cannot be used" in error
    assert selected(bad, RuleSpec()) == [PLAIN]
    broken_action = RuleSpec(name="b", action="SET")
    assert [row[0] for row in selected(RuleSpec(), broken_action)] == [None, "b"]


def test_a_match_is_plain_data() -> None:
    assert Match(3) == (3, None, None, None)
