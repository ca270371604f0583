"""Rules as description elements, and back: filters, actions, and values with their types.

Owns amqp-contract 12.6. It must never check expressions: the catalog refuses invalid ones (FLT-8).
Called by the operations.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from partibus.atom.descriptions import DESCRIPTION_ATTRIBUTES, write_boolean
from partibus.atom.markup import SCHEMA, TYPE, branch, leaf
from partibus.atom.reading import Description, read_boolean, read_integer, shown
from partibus.domain.entity import DEFAULT_RULE_NAME, CorrelationFilter, FilterType, RuleSpec
from partibus.domain.entity_properties import CONDITIONS, pascal_case
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import INT32_MAX
from partibus.domain.property_value import PropertyValue, TimeValue
from partibus.domain.refusal import PropertyRefused

RULE: Final = "RuleDescription"
DEFAULT_RULE: Final = "DefaultRuleDescription"
_COMPATIBILITY: Final = "20"
_PAIR: Final = "KeyValueOfstringanyType"
# Cut by five characters in the JavaScript client, so the prefix has four.
_SCHEMA_PREFIX: Final = "d6p1"
_CONDITIONS: Final = {pascal_case(field): field for field in CONDITIONS}
_ALWAYS: Final = {FilterType.TRUE: "1=1", FilterType.FALSE: "1=0"}


# --- reading ----------------------------------------------------------------------------------


def read_rule(description: Description, name: str) -> RuleSpec:
    """The rule with that name; a description that names another is refused."""
    if description.name not in (RULE, DEFAULT_RULE):
        raise ArgumentError(f"The entry must hold a {RULE}, not '{description.name}'.")
    said = description.text_of("Name")
    if said and name and said.lower() != name.lower():
        raise PropertyRefused("Name", f"the path has '{name}', but the entry has '{shown(said)}'.")
    rule = RuleSpec(name=name or said or DEFAULT_RULE_NAME)
    return _with_action(_with_filter(rule, description), description)


def _with_filter(rule: RuleSpec, description: Description) -> RuleSpec:
    filtered = description.child("Filter")
    if filtered is None:
        return rule
    kind = filtered.type_name
    if kind == "CorrelationFilter":
        correlation = _read_correlation(filtered)
        return replace(
            rule, filter_type=FilterType.CORRELATION, sql_expression="", correlation=correlation
        )
    for always, expression in _ALWAYS.items():
        if kind == f"{always.value}Filter":
            return replace(rule, filter_type=always, sql_expression=expression)
    if kind != "SqlFilter":
        raise PropertyRefused("Filter", f"'{shown(kind)}' is not a filter type.")
    return replace(
        rule,
        filter_type=FilterType.SQL,
        sql_expression=filtered.text_of("SqlExpression") or "",
        parameters=read_values(filtered.child("Parameters"), "Parameters"),
    )


def _with_action(rule: RuleSpec, description: Description) -> RuleSpec:
    action = description.child("Action")
    if action is None or action.type_name in ("", "EmptyRuleAction"):
        return rule
    if action.type_name != "SqlRuleAction":
        raise PropertyRefused("Action", f"'{shown(action.type_name)}' is not an action type.")
    return replace(
        rule,
        action=action.text_of("SqlExpression") or "",
        action_parameters=read_values(action.child("Parameters"), "Parameters"),
    )


def _read_correlation(filtered: Description) -> CorrelationFilter:
    conditions = {field: filtered.text_of(name) for name, field in _CONDITIONS.items()}
    return CorrelationFilter(
        **conditions, properties=read_values(filtered.child("Properties"), "Properties")
    )


def read_values(holder: Description | None, where: str) -> dict[str, PropertyValue]:
    """Names with typed values; empty when the element is missing or empty."""
    values: dict[str, PropertyValue] = {}
    for pair in () if holder is None else holder.children(_PAIR):
        name, value = pair.text_of("Key"), pair.child("Value")
        if not name or value is None:
            raise PropertyRefused(where, "each value needs a Key and a Value.")
        if name in values:
            raise PropertyRefused(where, f"'{shown(name)}' appears twice.")
        values[name] = _read_value(name, value)
    return values


def _read_value(name: str, value: Description) -> PropertyValue:
    text, kind = value.text, value.type_name
    if kind in ("string", ""):
        return text
    if kind in ("int", "long", "short", "byte"):
        return read_integer(name, text)
    if kind == "boolean":
        return read_boolean(name, text)
    if kind in ("double", "float", "decimal"):
        return _read_double(name, text)
    if kind == "dateTime":
        return TimeValue("dateTime", text.strip())
    if kind == "duration":
        return TimeValue("duration", text.strip())
    raise PropertyRefused(name, f"values of the type '{shown(kind)}' are not supported.")


def _read_double(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise PropertyRefused(name, f"expected a number, got '{shown(text)}'.")
    return value


# --- writing ----------------------------------------------------------------------------------


def write_rule(rule: RuleSpec, created: str) -> str:
    """The description element of a rule; `created` is a time as text."""
    parts = (_filter(rule), _action(rule), leaf("CreatedAt", created), leaf("Name", rule.name))
    return branch(RULE, parts, DESCRIPTION_ATTRIBUTES)


def _filter(rule: RuleSpec) -> str:
    if rule.filter_type is FilterType.CORRELATION:
        correlation = rule.correlation or CorrelationFilter()
        return branch("Filter", _conditions(correlation), {TYPE: "CorrelationFilter"})
    expression = _ALWAYS.get(rule.filter_type, rule.sql_expression)
    return _sql("Filter", f"{rule.filter_type.value}Filter", expression, rule.parameters)


def _action(rule: RuleSpec) -> str:
    if not rule.action:
        return branch("Action", (), {TYPE: "EmptyRuleAction"})
    return _sql("Action", "SqlRuleAction", rule.action, rule.action_parameters)


def _sql(name: str, kind: str, expression: str, values: Mapping[str, PropertyValue]) -> str:
    parts = (
        leaf("SqlExpression", expression),
        leaf("CompatibilityLevel", _COMPATIBILITY),
        write_values("Parameters", values),
    )
    return branch(name, parts, {TYPE: kind})


def _conditions(correlation: CorrelationFilter) -> Iterable[str]:
    for name, field in _CONDITIONS.items():
        value: str | None = getattr(correlation, field)
        if value is not None:
            yield leaf(name, value)
    yield write_values("Properties", correlation.properties)


def write_values(name: str, values: Mapping[str, PropertyValue]) -> str:
    """Names with typed values, as both vendors' clients parse them."""
    return branch(name, (_pair(key, value) for key, value in values.items()))


def _pair(key: str, value: PropertyValue) -> str:
    kind, text = _typed(value)
    attributes = {TYPE: f"{_SCHEMA_PREFIX}:{kind}", f"xmlns:{_SCHEMA_PREFIX}": SCHEMA}
    return branch(_PAIR, (leaf("Key", key), leaf("Value", text, attributes)))


def _typed(value: PropertyValue) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", write_boolean(value)
    if isinstance(value, int):
        return ("int" if -INT32_MAX - 1 <= value <= INT32_MAX else "long"), str(value)
    if isinstance(value, float):
        return "double", repr(value)
    return (value.kind, value.text) if isinstance(value, TimeValue) else ("string", value)
