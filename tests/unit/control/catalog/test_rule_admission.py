"""Rules that cannot be used never get into the catalog."""

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.property_value import TimeValue
from partibus.rules.errors import RuleRefused


@pytest.mark.rule("FLT-8")
@pytest.mark.parametrize(
    "rule",
    [
        RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression="a =="),
        RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression="sys.Nothing = 1"),
        RuleSpec(name="r", filter_type=FilterType.SQL, sql_expression="a = @missing"),
        RuleSpec(name="r", action="SET a"),
        RuleSpec(name="r", action="SET sys.Size = 1"),
        RuleSpec(
            name="r",
            filter_type=FilterType.CORRELATION,
            correlation=CorrelationFilter(properties={"p": TimeValue("dateTime", "soon")}),
        ),
        RuleSpec(
            name="r", action="SET a = @p", action_parameters={"@p": TimeValue("duration", "P")}
        ),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rule: RuleSpec) -> None:
    catalog = Catalog()
    catalog.create("t", TopicSpec())
    with pytest.raises(RuleRefused):
        catalog.create("t/Subscriptions/s", SubscriptionSpec(rules=(rule,)))
    assert catalog.lookup("t/Subscriptions/s") is None
    catalog.create("t/Subscriptions/s", SubscriptionSpec())
    with pytest.raises(RuleRefused):
        catalog.update("t/Subscriptions/s", SubscriptionSpec(rules=(RuleSpec(), rule)))
    assert catalog.entity("t/Subscriptions/s").spec.rules == (RuleSpec(),)  # type: ignore[union-attr]
