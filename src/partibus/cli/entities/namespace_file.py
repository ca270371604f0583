"""A whole namespace as one file: the tables of a definitions file, written and compared.

Owns the conversion of entities of the management API to the tables of our TOML (and the same as
JSON) and back. The vendor's defaults are left out, so that the file contains only what its author
chose. Policies and keys must never leave a server. Called by `partibus namespace`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from partibus.cli.failures import CommandFailed
from partibus.client.atom import AtomClient
from partibus.control.declared import fields as definition_fields
from partibus.control.declared.definitions import Definitions, load_definitions, parse_toml
from partibus.control.declared.describe import describe
from partibus.domain.entity import (
    SPECS,
    EntityKind,
    EntitySpec,
    FilterType,
    RuleSpec,
    kind_of,
)
from partibus.domain.entity_properties import PROPERTIES, Kind
from partibus.server.failure import EXIT_USAGE

Table = dict[str, Any]
# Servers report the size of their tier; a file with it would not fit another tier.
_MESSAGE_SIZE: Final = "max_message_size_in_kilobytes"
_MESSAGE_SIZES_USUAL: Final = (256, 1024)
_KINDS: Final[dict[EntityKind, Kind]] = {
    EntityKind.QUEUE: "queue",
    EntityKind.TOPIC: "topic",
    EntityKind.SUBSCRIPTION: "subscription",
}


# --- from a server ----------------------------------------------------------------------------


def read_namespace(atom: AtomClient, partition_counts: Mapping[str, int]) -> Table:
    """All entities and rules, as the tables of a definitions file."""
    queues = [_table("queue", q, partition_counts) for q in atom.list("queue")]
    topics = [_table("topic", t, partition_counts) for t in atom.list("topic")]
    for topic in topics:
        name = topic["name"]
        children = [_table("subscription", s, {}) for s in atom.list("subscription", name)]
        for child in children:
            child["rule"] = list(atom.rules(name, child["name"]))
        if children:
            topic["subscription"] = children
    return {"queue": queues, "topic": topics}


def _table(kind: Kind, entity: Table, partition_counts: Mapping[str, int]) -> Table:
    kept: Table = {"name": entity["name"]}
    plain = spec_fields(SPECS[EntityKind(kind)]())
    for known in PROPERTIES[kind]:
        value = entity.get(known.key)
        if known.key == _MESSAGE_SIZE and value in _MESSAGE_SIZES_USUAL:
            continue
        if value not in (None, "") and value != plain.get(known.key):
            kept[known.key] = local_path(value) if known.key.startswith("forward") else value
    if kept.get("enable_partitioning") and entity["name"] in partition_counts:
        kept["partition_count"] = partition_counts[entity["name"]]
    return kept


def local_path(address: str) -> str:
    """A forwarding address without the host, which differs between servers."""
    return address.split("://", 1)[1].partition("/")[2] if "://" in address else address


# --- from a file ------------------------------------------------------------------------------


@dataclass(slots=True)
class Declared:
    """An entity that a file declares, ready for the management API."""

    kind: Kind
    path: str
    fields: Table
    rules: list[Table] = field(default_factory=list)


def load_namespace(file: Path) -> list[Declared]:
    """The declarations of a file: TOML, the JSON of an export, or the emulator's Config.json."""
    definitions = _definitions(file)
    return [
        Declared(
            kind=_KINDS[kind_of(entity.spec)],
            path=entity.path,
            fields=spec_fields(entity.spec),
            rules=[rule_table(rule) for rule in getattr(entity.spec, "rules", ())],
        )
        for entity in definitions.entities
    ]


def _definitions(file: Path) -> Definitions:
    if file.suffix.lower() == ".json":
        try:
            tables = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError):
            return load_definitions(file)  # which knows the emulator's comments
        if isinstance(tables, dict) and ("queue" in tables or "topic" in tables):
            return parse_toml(file, toml_text(tables))
    return load_definitions(file)


def spec_fields(spec: EntitySpec) -> Table:
    """A spec by the names of the management API, with durations as text."""
    known = {field.key for field in PROPERTIES[_KINDS[kind_of(spec)]]}
    found = describe(spec)
    return {key: found[key] for key in found if key in known and found[key] is not None}


def rule_table(rule: RuleSpec) -> Table:
    """A rule as a definitions file writes it."""
    table: Table = {"name": rule.name}
    if rule.filter_type is FilterType.CORRELATION and rule.correlation is not None:
        conditions = {
            key: value
            for key in definition_fields.CORRELATION_FIELDS
            if (value := getattr(rule.correlation, key))
        }
        if "properties" in conditions:
            properties = definition_fields.property_table(conditions["properties"])
            conditions["properties"] = properties
        table["correlation_filter"] = conditions
    elif rule.filter_type is FilterType.FALSE:
        table["sql_filter"] = "1=0"
    elif rule.filter_type is FilterType.SQL:
        table["sql_filter"] = rule.sql_expression
    if rule.action:
        table["action"] = rule.action
    for key in ("parameters", "action_parameters"):
        values = getattr(rule, key)
        if values:
            table[key] = dict(values)
    return table


# --- TOML -------------------------------------------------------------------------------------


def toml_text(tables: Table) -> str:
    """The tables as TOML; strings and keys are written as JSON, which TOML reads the same way."""
    lines: list[str] = []
    for kind in ("queue", "topic"):
        for table in tables.get(kind, []):
            lines += _toml_table((kind,), table)
    return "\n".join(lines).strip() + "\n"


def _toml_table(where: tuple[str, ...], table: Table) -> Iterator[str]:
    yield f"\n[[{'.'.join(where)}]]"
    children = {k: v for k, v in table.items() if k in ("subscription", "rule")}
    for key, value in table.items():
        if key not in children:
            yield f"{key} = {_toml_value(value)}"
    for key, items in children.items():
        for item in items:
            yield from _toml_table((*where, key), item)


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(k)} = {_toml_value(v)}" for k, v in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise CommandFailed(f"'{value}' cannot be written as TOML.", EXIT_USAGE)
