"""The rules of a subscription through its management node: add, remove, list.

Owns these three operations and the forms that rules have on the wire (amqp-contract 7.3 to 7.5).
They need the Listen right, as the SDKs' rule managers promise. The catalog decides whether a rule
is valid; `partibus.rules` decides what it selects.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Described, Int, Timestamp, ULong
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    RuleSpec,
    SubscriptionSpec,
    rules_by_name,
)
from partibus.domain.entity_properties import CONDITIONS
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityExists,
    EntityNotFound,
    InvalidOperation,
    NotImplementedHere,
)
from partibus.domain.observing.notices import note_change
from partibus.domain.property_value import PropertyValue
from partibus.message.edits import on_wire
from partibus.message.view import plain
from partibus.rules.time_values import operand, time_value

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest
    from partibus.gateway.rule_changes import Edit, Rules

RULE_DESCRIPTION: Final = ULong(0x137_0000_0004)
EMPTY_ACTION: Final = ULong(0x137_0000_0005)
SQL_ACTION: Final = ULong(0x137_0000_0006)
SQL_FILTER: Final = ULong(0x13_7000_0006)
TRUE_FILTER: Final = ULong(0x13_7000_0007)
FALSE_FILTER: Final = ULong(0x13_7000_0008)
CORRELATION_FILTER: Final = ULong(0x13_7000_0009)
COMPATIBILITY: Final = Int(20)
"""The level of the SQL dialect, which clients ignore."""

_CORRELATION_KEYS: Final = {field.replace("_", "-"): field for field in CONDITIONS}
"""Keys of a request, in the order of the list in an answer."""


def add_rule(request: "ManagementRequest") -> None:
    """Add a rule; it applies from the next message on (FLT-10)."""
    rule = _rule(_rule_name(request), request.fields.get("rule-description"))

    def edit(record: EntityRecord, rules: "Rules") -> "Rules":
        if any(known.name.lower() == rule.name.lower() for known in rules):
            raise EntityExists.named(f"{record.path}/Rules/{rule.name}")  # FLT-11
        return (*rules, rule)

    _change(request, edit)


def remove_rule(request: "ManagementRequest") -> None:
    """Remove a rule; without any rule nothing is selected (FLT-5)."""
    name = _rule_name(request)

    def edit(record: EntityRecord, rules: "Rules") -> "Rules":
        kept = tuple(known for known in rules if known.name.lower() != name.lower())
        if len(kept) == len(rules):
            raise EntityNotFound.named(f"{record.path}/Rules/{name}")
        return kept

    _change(request, edit)


def enumerate_rules(request: "ManagementRequest") -> None:
    """The rules in the order of their names (FLT-12); 204 when there are none."""
    skip, top = max(0, request.number("skip", 0)), max(0, request.number("top", 100))
    record = request.node.connection.gateway.namespace.record(_subscription(request).path)
    assert isinstance(record.spec, SubscriptionSpec)
    rules = rules_by_name(record.spec)[skip : skip + top]
    if not rules:
        request.succeed_empty()
        return
    described = [{"rule-description": _described(rule, record.created_ms)} for rule in rules]
    request.succeed({"rules": described})


def _change(request: "ManagementRequest", edit: "Edit") -> None:
    changes = request.node.connection.gateway.rule_changes
    if changes is None:
        raise NotImplementedHere("The namespace of this server is fixed; rules cannot be changed.")
    changes.ask(_subscription(request).path, edit, _answer(request))


def _note(request: "ManagementRequest", error: BusError | None) -> None:
    """Record a change of rules in the audit log, as for any administration."""
    connection = request.node.connection
    who = ", ".join(sorted({grant.who for grant in connection.grants.held}))
    what = f"{request.operation} {_subscription(request).path}"
    note_change(who, what, connection.origin.peer, error)


def _answer(request: "ManagementRequest") -> Callable[[BusError | None], None]:
    def done(error: BusError | None) -> None:
        _note(request, error)
        if error is None:
            request.succeed()
        else:
            request.fail(error)

    return done


def _subscription(request: "ManagementRequest") -> EntityRecord:
    record = request.entity.record
    if not isinstance(record.spec, SubscriptionSpec):
        raise InvalidOperation(f"'{record.path}' has no rules; only subscriptions have rules.")
    return record


def _rule_name(request: "ManagementRequest") -> str:
    name = request.fields.get("rule-name")
    if not is_text(name) or not name:
        raise ArgumentError("The request must name a rule by its 'rule-name'.")
    return text_of(name) or ""


# --- from the wire --------------------------------------------------------------------------------


def _rule(name: str, description: object) -> RuleSpec:
    if not isinstance(description, Mapping):
        raise ArgumentError("The request must contain a map 'rule-description'.")
    action = _expression(description, "sql-rule-action")
    correlation = description.get("correlation-filter")
    if isinstance(correlation, Mapping):
        return RuleSpec(
            name=name,
            filter_type=FilterType.CORRELATION,
            sql_expression="",
            correlation=_correlation(correlation),
            action=action,
        )
    expression = _expression(description, "sql-filter")
    if not expression:
        raise ArgumentError("A rule needs a 'sql-filter' or a 'correlation-filter'.")
    kind = {"1=1": FilterType.TRUE, "1=0": FilterType.FALSE}.get(expression, FilterType.SQL)
    return RuleSpec(name=name, filter_type=kind, sql_expression=expression, action=action)


def _expression(description: Mapping[object, object], key: str) -> str:
    given = description.get(key)
    if given is None:
        return ""
    expression = given.get("expression") if isinstance(given, Mapping) else None
    if expression is None:
        return ""
    if not is_text(expression):
        raise ArgumentError(f"The 'expression' of '{key}' must be a string.")
    return text_of(expression) or ""


def _correlation(given: Mapping[object, object]) -> CorrelationFilter:
    texts: dict[str, str] = {}
    for key, field in _CORRELATION_KEYS.items():
        text = text_of(given.get(key))
        if text is not None:
            texts[field] = text
    properties: dict[str, PropertyValue] = {}
    wanted = given.get("properties")
    if isinstance(wanted, Mapping):
        for name, value in wanted.items():
            text = text_of(name) or ""
            properties[text] = _condition(text, plain(value))
    return CorrelationFilter(properties=properties, **texts)


def _condition(name: str, value: object) -> PropertyValue:
    if isinstance(value, datetime.datetime | datetime.timedelta):
        return time_value(value)
    if not isinstance(value, str | bool | int | float):
        raise ArgumentError(
            f"The condition on the property '{name}' must be text, a number, a boolean, a "
            "timestamp or a duration."
        )
    return value


# --- to the wire ----------------------------------------------------------------------------------


def _described(rule: RuleSpec, created_ms: int) -> Described:
    action = Described(EMPTY_ACTION, [])
    if rule.action:
        action = Described(SQL_ACTION, [rule.action, COMPATIBILITY])
    fields = [_described_filter(rule), action, rule.name, Timestamp(created_ms)]
    return Described(RULE_DESCRIPTION, fields)


def _described_filter(rule: RuleSpec) -> Described:
    if rule.filter_type is FilterType.TRUE:
        return Described(TRUE_FILTER, [])
    if rule.filter_type is FilterType.FALSE:
        return Described(FALSE_FILTER, [])
    if rule.filter_type is FilterType.SQL:
        return Described(SQL_FILTER, [rule.sql_expression, COMPATIBILITY])
    correlation = rule.correlation or CorrelationFilter()
    fields: list[object] = [getattr(correlation, field) for field in _CORRELATION_KEYS.values()]
    fields.append({name: on_wire(operand(v)) for name, v in correlation.properties.items()})
    return Described(CORRELATION_FILTER, fields)
