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

from partibus.control.access.jwt_tokens import JwtSettings
from partibus.control.access.policies import ROOT_POLICY_NAME
from partibus.control.declared import fields
from partibus.control.declared.fields import Section, Table
from partibus.control.declared.jwt_config import read_jwt
from partibus.control.declared.source import DefinitionSource, read_text
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
        tables = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}.") from error
    root = Section(DefinitionSource(file, content, toml_lines), (), tables)
    root.refuse_unknown(_ROOT_KEYS)
    entities = (*_queues(root), *_topics(root))
    refuse_twins(root.source, entities)
    return Definitions(
        source=root.source,
        entities=entities,
        policies=tuple(_policies(root)),
        server=root.optional("server").table,
        tls=root.optional("tls").table,
        limits=root.optional("limits").table,
        jwt=read_jwt(root.optional("jwt")),
        partitions=_partitions(root.optional("namespace")),
    )


def _partitions(namespace: Section) -> int | None:
    namespace.refuse_unknown(("partitions",))
    value = namespace.table.get("partitions")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in _PARTITIONS:
        allowed = ", ".join(map(str, _PARTITIONS))
        raise namespace.error("partitions", f"expected one of {allowed}, got '{value}'.")
    return value


def _queues(root: Section) -> Iterator[EntityDefinition]:
    for queue in root.children("queue"):
        queue.refuse_unknown({"name", "policy", *fields.QUEUE_FIELDS})
        name, spec = queue.text("name"), queue.spec(fields.QUEUE_FIELDS, QueueSpec)
        _check_partition_count(queue)
        yield EntityDefinition(where=queue.where, path=name, spec=spec)


def _topics(root: Section) -> Iterator[EntityDefinition]:
    for topic in root.children("topic"):
        topic.refuse_unknown({"name", "policy", "subscription", *fields.TOPIC_FIELDS})
        name, spec = topic.text("name"), topic.spec(fields.TOPIC_FIELDS, TopicSpec)
        _check_partition_count(topic)
        yield EntityDefinition(where=topic.where, path=name, spec=spec)
        for child in topic.children("subscription"):
            yield _subscription(child, name)


def _check_partition_count(entity: Section) -> None:
    """An explicit count of one means no partitioning; in a spec it means "not set"."""
    if entity.table.get("partition_count") == 1 and entity.table.get("enable_partitioning") is True:
        raise entity.error(
            "partition_count",
            "1 is not allowed with enable_partitioning; write 2 or more, or leave both out.",
        )


def _subscription(subscription: Section, topic: str) -> EntityDefinition:
    subscription.refuse_unknown({"name", "rule", *fields.SUBSCRIPTION_FIELDS})
    name = subscription.text("name")
    rules = {rule.where: _rule(rule) for rule in subscription.children("rule")}
    values = subscription.spec(fields.SUBSCRIPTION_FIELDS, dict[str, object])
    return define_subscription(subscription.where, subscription_path(topic, name), values, rules)


def define_subscription(
    where: Where, path: str, values: Mapping[str, object], rules: Mapping[Where, RuleSpec]
) -> EntityDefinition:
    """A subscription; without declared rules it has the true filter (FLT-2, EMU-10)."""
    make = cast(Callable[..., SubscriptionSpec], SubscriptionSpec)
    spec = make(**values, rules=tuple(rules.values())) if rules else make(**values)
    return EntityDefinition(where=where, path=path, spec=spec, rule_places=tuple(rules))


def _rule(table: Section) -> RuleSpec:
    table.refuse_unknown(_RULE_KEYS)
    if "sql_filter" in table.table and "correlation_filter" in table.table:
        raise table.source.error(
            table.where, "a rule has sql_filter or correlation_filter, not both."
        )
    # Parameters are the values of the @names of an expression (SQL-12).
    rule = RuleSpec(
        name=table.text("name"),
        action=table.text("action") if "action" in table.table else "",
        parameters=table.read("parameters", fields.property_values, {}),
        action_parameters=table.read("action_parameters", fields.property_values, {}),
    )
    if "sql_filter" in table.table:
        expression = table.text("sql_filter")
        return replace(rule, filter_type=FilterType.SQL, sql_expression=expression)
    if "correlation_filter" in table.table:
        conditions = table.child("correlation_filter")
        conditions.refuse_unknown(fields.CORRELATION_FIELDS)
        return replace(
            rule,
            filter_type=FilterType.CORRELATION,
            sql_expression="",
            correlation=conditions.spec(fields.CORRELATION_FIELDS, CorrelationFilter),
        )
    return rule


def _policies(root: Section) -> Iterator[PolicyDefinition]:
    yield from _policies_of(root, "")
    for entity in (*root.children("queue"), *root.children("topic")):
        yield from _policies_of(entity, entity.text("name"))


def _policies_of(entity: Section, scope: str) -> Iterator[PolicyDefinition]:
    for policy in entity.children("policy"):
        policy.refuse_unknown(_POLICY_KEYS)
        has_second = "secondary_key" in policy.table
        secondary_key = policy.text("secondary_key") if has_second else None
        rights = policy.read("rights", _rights)
        yield PolicyDefinition(
            where=policy.where,
            scope=scope,
            name=policy.text("name"),
            rights=rights,
            key=policy.text("key"),
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
                entity.where, "name", f"'{entity.path}' is already declared, in line {line}."
            )
