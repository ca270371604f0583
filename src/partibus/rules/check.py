"""Whether a rule is valid, checked when it is created (FLT-8).

Owns only the refusal: the parser is that of the evaluation, so what passes here can be evaluated.
Called by the catalog before it writes, and by the reader of definitions, which adds the file and
line.
"""

from collections.abc import Mapping

from partibus.domain.entity import FilterType, RuleSpec
from partibus.domain.limits import PROPERTY_BYTES_MAX
from partibus.domain.property_value import PropertyValue, TimeValue
from partibus.rules.action import Action
from partibus.rules.correlation import conditions
from partibus.rules.errors import CorrelationError, FilterError, RuleActionError, RuleRefused
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.time_values import EXAMPLES, operand
from partibus.rules.values import TIME_LENGTH_MAX


def check_rule(rule: RuleSpec) -> None:
    """Refuse a rule whose filter or action is not valid, by a `RuleRefused`."""
    if rule.filter_type is FilterType.SQL:
        _check_values(rule.parameters, FilterError)
        SqlFilter(rule.sql_expression, rule.parameters)
    elif rule.filter_type is FilterType.CORRELATION:
        _check_correlation(rule)
    if rule.action:
        _check_values(rule.action_parameters, RuleActionError)
        Action(rule.action, rule.action_parameters)


def _check_correlation(rule: RuleSpec) -> None:
    """At least one condition, and no property named twice in different case (COR-1)."""
    if rule.correlation is None or not conditions(rule.correlation):
        raise CorrelationError("at least one condition is needed.")
    seen: set[str] = set()
    for name in rule.correlation.properties:
        if name.lower() in seen:
            raise CorrelationError(
                f"the property '{name}' is named twice; names are case-insensitive."
            )
        seen.add(name.lower())
    _check_values(rule.correlation.properties, CorrelationError)


def _check_values(values: Mapping[str, PropertyValue], refusal: type[RuleRefused]) -> None:
    for name, value in values.items():
        if isinstance(value, str) and len(value) > PROPERTY_BYTES_MAX:
            raise refusal(f"The value of {name} has more than {PROPERTY_BYTES_MAX} characters.")
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise refusal(f"The value of {name} has more than 64 bits.")
        if isinstance(value, TimeValue) and isinstance(operand(value), TimeValue):
            raise refusal(
                f"The value of {name}, '{value.text[:TIME_LENGTH_MAX]}', is not a valid "
                f"{value.kind}; for example: {EXAMPLES[value.kind]}."
            )
