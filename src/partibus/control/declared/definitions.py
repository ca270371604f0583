"""Entities and policies declared in a file: their shape, and the TOML form of it.

Owns what a file may declare and how our own file says it: [server], [tls], [limits], [[policy]],
[[queue]], [[topic]], [[topic.subscription]] and [[topic.subscription.rule]], with the vendor's
names in snake case. Every error names file, line and path. It must never change anything:
`control.declared.apply` does that. The emulator's JSON is read by
`control.declared.emulator_config`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from partibus.control.declared import fields
from partibus.control.declared.fields import Field, Table
from partibus.control.declared.jwt_config import read_jwt
from partibus.control.declared.source import DefinitionSource, read_text
from partibus.control.jwt_tokens import JwtSettings
from partibus.control.policies import ROOT_POLICY_NAME
from partibus.domain.address import path_key, subscription_path
from partibus.domain.entity import (
    CorrelationFilter,
    EntitySpec,
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import ArgumentError, ConfigError
from partibus.domain.property_value import PropertyValue
from partibus.domain.rights import Rights, rights_from_names
from partibus.domain.toml_lines import Where, toml_lines

_ROOT_KEYS: Final = ("server", "tls", "limits", "namespace", "jwt", "policy", "queue", "topic")
_PARTITIONS: Final = (1, 2, 4)  # CON-1
_POLICY_KEYS: Final = ("name", "rights", "key", "secondary_key")
_RULE_KEYS: Final = (
    "name",
    "sql_filter",
    "correlation_filter",
    "action",
    "parameters",
    "action_parameters",
)


@dataclass(slots=True, frozen=True, kw_only=True)
class PolicyDefinition:
    """A declared policy; `scope` is the path of its entity, "" for the namespace."""

    where: Where
    scope: str
    name: str
    rights: Rights
    key: str = field(repr=False)
    secondary_key: str | None = field(repr=False, default=None)


@dataclass(slots=True, frozen=True, kw_only=True)
class EntityDefinition:
    """A declared entity, and where its rules are in the file."""

    where: Where
    path: str
    spec: EntitySpec
    rule_places: tuple[Where, ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class Definitions:
    """Everything that a file declares; topics come before their subscriptions."""

    source: DefinitionSource
    entities: tuple[EntityDefinition, ...] = ()
    policies: tuple[PolicyDefinition, ...] = ()
    server: Table = field(default_factory=dict)
    tls: Table = field(default_factory=dict)
    limits: Table = field(default_factory=dict)
    jwt: JwtSettings | None = None
    partitions: int | None = None
    """The count for every entity, in the profile with partitioned namespaces (CON-1)."""

    @property
    def declares_root_policy(self) -> bool:
        """Whether the file itself sets the root policy's key."""
        return any(not p.scope and p.name == ROOT_POLICY_NAME for p in self.policies)


def load_definitions(file: Path) -> Definitions:
    """Read a definitions file: TOML, or the JSON of the vendor's emulator."""
    from partibus.control.declared.emulator_config import is_emulator_config, parse_emulator_config

    content = read_text(file)
    if is_emulator_config(file, content):
        return parse_emulator_config(file, content)
    return parse_toml(file, content)


def parse_toml(file: Path, content: str) -> Definitions:
    """The definitions of a TOML text; `file` is named in errors."""
    import tomllib

    try:
        root = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: is not valid TOML: {error}.") from error
    source = DefinitionSource(file, content, toml_lines)
    fields.refuse_unknown(source, (), root, _ROOT_KEYS)
    entities = (*_queues(source, root), *_topics(source, root))
    refuse_twins(source, entities)
    return Definitions(
        source=source,
        entities=entities,
        policies=tuple(_policies(source, root)),
        server=fields.child_table(source, ("server",), root.get("server", {})),
        tls=fields.child_table(source, ("tls",), root.get("tls", {})),
        limits=fields.child_table(source, ("limits",), root.get("limits", {})),
        jwt=read_jwt(source, fields.child_table(source, ("jwt",), root.get("jwt", {}))),
        partitions=_partitions(source, root),
    )


def _partitions(source: DefinitionSource, root: Table) -> int | None:
    where = ("namespace",)
    table = fields.child_table(source, where, root.get("namespace", {}))
    fields.refuse_unknown(source, where, table, ("partitions",))
    value = table.get("partitions")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in _PARTITIONS:
        allowed = ", ".join(map(str, _PARTITIONS))
        raise source.error((*where, "partitions"), f"expected one of {allowed}, got '{value}'.")
    return value


def _queues(source: DefinitionSource, root: Table) -> Iterator[EntityDefinition]:
    for where, table in fields.child_tables(source, (), root, "queue"):
        fields.refuse_unknown(source, where, table, {"name", "policy", *fields.QUEUE_FIELDS})
        name = fields.required_text(source, where, table, "name")
        spec = fields.read_spec(source, where, table, fields.QUEUE_FIELDS, QueueSpec)
        _check_partition_count(source, where, table)
        yield EntityDefinition(where=where, path=name, spec=spec)


def _topics(source: DefinitionSource, root: Table) -> Iterator[EntityDefinition]:
    for where, table in fields.child_tables(source, (), root, "topic"):
        known = {"name", "policy", "subscription", *fields.TOPIC_FIELDS}
        fields.refuse_unknown(source, where, table, known)
        name = fields.required_text(source, where, table, "name")
        spec = fields.read_spec(source, where, table, fields.TOPIC_FIELDS, TopicSpec)
        _check_partition_count(source, where, table)
        yield EntityDefinition(where=where, path=name, spec=spec)
        for place, child in fields.child_tables(source, where, table, "subscription"):
            yield _subscription(source, place, child, name)


def _check_partition_count(source: DefinitionSource, where: Where, table: Table) -> None:
    """An explicit count of one means no partitioning; in a spec it means "not set"."""
    if table.get("partition_count") == 1 and table.get("enable_partitioning") is True:
        raise source.error(
            (*where, "partition_count"),
            "1 is not allowed with enable_partitioning; write 2 or more, or leave both out.",
        )


def _subscription(
    source: DefinitionSource, where: Where, table: Table, topic: str
) -> EntityDefinition:
    fields.refuse_unknown(source, where, table, {"name", "rule", *fields.SUBSCRIPTION_FIELDS})
    name = fields.required_text(source, where, table, "name")
    places = fields.child_tables(source, where, table, "rule")
    rules = tuple(_rule(source, place, rule) for place, rule in places)

    def make(**values: object) -> SubscriptionSpec:
        return make_subscription(values, rules)

    spec = fields.read_spec(source, where, table, fields.SUBSCRIPTION_FIELDS, make)
    return EntityDefinition(
        where=where,
        path=subscription_path(topic, name),
        spec=spec,
        rule_places=tuple(place for place, _ in places),
    )


def make_subscription(
    values: Mapping[str, object], rules: tuple[RuleSpec, ...]
) -> SubscriptionSpec:
    """A subscription; without declared rules it has the true filter (FLT-2, EMU-10)."""
    make = cast(Callable[..., SubscriptionSpec], SubscriptionSpec)
    return make(**values, rules=rules) if rules else make(**values)


def _rule(source: DefinitionSource, where: Where, table: Table) -> RuleSpec:
    fields.refuse_unknown(source, where, table, _RULE_KEYS)
    if "sql_filter" in table and "correlation_filter" in table:
        raise source.error(where, "a rule has sql_filter or correlation_filter, not both.")
    rule = RuleSpec(
        name=fields.required_text(source, where, table, "name"),
        action=fields.required_text(source, where, table, "action") if "action" in table else "",
        parameters=_parameters(source, where, table, "parameters"),
        action_parameters=_parameters(source, where, table, "action_parameters"),
    )
    if "sql_filter" in table:
        expression = fields.required_text(source, where, table, "sql_filter")
        return replace(rule, filter_type=FilterType.SQL, sql_expression=expression)
    if "correlation_filter" in table:
        place = (*where, "correlation_filter")
        child = fields.child_table(source, place, table["correlation_filter"])
        conditions = read_correlation(source, place, child, fields.CORRELATION_FIELDS)
        return replace(
            rule,
            filter_type=FilterType.CORRELATION,
            sql_expression="",
            correlation=conditions,
        )
    return rule


def _parameters(
    source: DefinitionSource, where: Where, table: Table, key: str
) -> dict[str, PropertyValue]:
    """The values of the @names of an expression (SQL-12)."""
    values = fields.read_value(
        source, (*where, key), table.get(key, {}), Field(key, fields.property_values)
    )
    return cast(dict[str, PropertyValue], values)


def read_correlation(
    source: DefinitionSource, where: Where, table: Table, known: Mapping[str, Field]
) -> CorrelationFilter:
    """The conditions of a correlation filter."""
    fields.refuse_unknown(source, where, table, known)
    return fields.read_spec(source, where, table, known, CorrelationFilter)


def _policies(source: DefinitionSource, root: Table) -> Iterator[PolicyDefinition]:
    yield from _policies_of(source, (), root, "")
    for kind in ("queue", "topic"):
        for where, table in fields.child_tables(source, (), root, kind):
            name = fields.required_text(source, where, table, "name")
            yield from _policies_of(source, where, table, name)


def _policies_of(
    source: DefinitionSource, where: Where, table: Table, scope: str
) -> Iterator[PolicyDefinition]:
    for place, child in fields.child_tables(source, where, table, "policy"):
        fields.refuse_unknown(source, place, child, _POLICY_KEYS)
        secondary_key = None
        if "secondary_key" in child:
            secondary_key = fields.required_text(source, place, child, "secondary_key")
        rights = fields.read_value(
            source, (*place, "rights"), child.get("rights"), Field("rights", _rights)
        )
        yield PolicyDefinition(
            where=place,
            scope=scope,
            name=fields.required_text(source, place, child, "name"),
            rights=cast(Rights, rights),
            key=fields.required_text(source, place, child, "key"),
            secondary_key=secondary_key,
        )


def _rights(value: object) -> Rights:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ArgumentError('expected a list, for example ["Send", "Listen"].')
    return rights_from_names(value)


def refuse_twins(source: DefinitionSource, entities: tuple[EntityDefinition, ...]) -> None:
    """Two entities with the same name are an error (ENT-9); names are compared ignoring case
    (ENT-8)."""
    seen: dict[str, EntityDefinition] = {}
    for entity in entities:
        twin = seen.setdefault(path_key(entity.path), entity)
        if twin is not entity:
            line = source.line_of(twin.where)
            raise source.property_error(
                entity.where, "name", f"'{entity.path}' is declared already, in line {line}."
            )
