"""The configuration file of the vendor's emulator, read as it is (EMU-9 to EMU-11).

Owns the emulator's JSON: its keys, its defaults, which differ from the cloud's, and its comments.
Unknown keys and filter types are errors, never dropped silently. It makes the same `Definitions` as
our own file; ranges come from the profile later on.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from partibus.control.declared import fields
from partibus.control.declared.definitions import (
    Definitions,
    EntityDefinition,
    make_subscription,
    read_correlation,
    refuse_twins,
)
from partibus.control.declared.fields import Field, Table
from partibus.control.declared.json_lines import json_lines, strip_comments
from partibus.control.declared.source import DefinitionSource
from partibus.domain.address import subscription_path
from partibus.domain.entity import (
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import ConfigError
from partibus.domain.limits import HOUR_MS, SECOND_MS
from partibus.domain.toml_lines import Where

_LOGGING_TYPES: Final = ("File", "Console", "File,Console", "Console,File")
# The emulator's own defaults (EMU-11).
_TIME_TO_LIVE: Final = {"default_message_time_to_live_ms": HOUR_MS}
_WINDOW: Final = {"duplicate_detection_history_time_window_ms": 20 * SECOND_MS}
_DELIVERIES: Final = {"max_delivery_count": 3}


def _pascal(snake: str) -> str:
    return "".join(word.capitalize() for word in snake.split("_"))


def _select(known: Mapping[str, Field], *names: str) -> dict[str, Field]:
    return {_pascal(name): known[name] for name in names}


_RECEIVED: Final = (
    "dead_lettering_on_message_expiration",
    "default_message_time_to_live",
    "forward_dead_lettered_messages_to",
    "forward_to",
    "lock_duration",
    "max_delivery_count",
    "requires_session",
)
_DEDUPLICATED: Final = ("duplicate_detection_history_time_window", "requires_duplicate_detection")
_QUEUE: Final = _select(fields.QUEUE_FIELDS, *_RECEIVED, *_DEDUPLICATED)
_TOPIC: Final = _select(fields.TOPIC_FIELDS, "default_message_time_to_live", *_DEDUPLICATED)
_SUBSCRIPTION: Final = _select(fields.SUBSCRIPTION_FIELDS, *_RECEIVED)
_CORRELATION: Final = _select(fields.CORRELATION_FIELDS, *fields.CORRELATION_FIELDS)
_WITHOUT_MEANING: Final = ("RequiresPreprocessing", "CompatibilityLevel")
"""Keys of the cloud's templates that tools copy into filters and actions; the service stores them
without acting on them."""


def _spell(property_name: str) -> Where:
    """Where a property is below its entity."""
    if property_name == "name":
        return ("Name",)
    return ("Properties", _pascal(property_name))


def is_emulator_config(file: Path, content: str) -> bool:
    """Whether the file is JSON: by its name, or else by its first character."""
    if file.suffix.lower() in (".json", ".toml"):
        return file.suffix.lower() == ".json"
    return strip_comments(content).lstrip().startswith("{")


def parse_emulator_config(file: Path, content: str) -> Definitions:
    """The definitions of an emulator configuration; `file` is named in errors."""
    source = DefinitionSource(file, content, json_lines, _spell)
    root = fields.child_table(source, (), _parse(file, content))
    fields.refuse_unknown(source, (), root, ("UserConfig", "$schema"))
    where, user = fields.required_table(source, (), root, "UserConfig")
    fields.refuse_unknown(source, where, user, ("Namespaces", "Logging"))
    _check_logging(source, user)
    namespaces = fields.child_tables(source, where, user, "Namespaces")
    if len(namespaces) != 1:
        raise source.error(
            (*where, "Namespaces"), f"exactly one namespace is allowed, not {len(namespaces)}."
        )
    place, namespace = namespaces[0]
    fields.refuse_unknown(source, place, namespace, ("Name", "Queues", "Topics"))
    fields.required_text(source, place, namespace, "Name")
    entities = (*_queues(source, place, namespace), *_topics(source, place, namespace))
    refuse_twins(source, entities)
    return Definitions(source=source, entities=entities)


class _TwinKey(ValueError):
    """A key occurs twice in one object."""


def _parse(file: Path, content: str) -> object:
    try:
        return json.loads(strip_comments(content), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{file}:{error.lineno}: is not valid JSON: {error.msg} (column {error.colno})."
        ) from error
    except _TwinKey as error:
        raise ConfigError(f"{file}: the key '{error}' appears twice in one object.") from error
    except RecursionError as error:
        raise ConfigError(f"{file}: is nested too deeply.") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise _TwinKey(key)
        made[key] = value
    return made


def _check_logging(source: DefinitionSource, user: Table) -> None:
    """The emulator's logging has no meaning here, but a wrong value is an error."""
    if "Logging" not in user:
        return
    where: Where = ("UserConfig", "Logging")
    logging = fields.child_table(source, where, user["Logging"])
    fields.refuse_unknown(source, where, logging, ("Type",))
    if fields.required_text(source, where, logging, "Type") not in _LOGGING_TYPES:
        raise source.error((*where, "Type"), f"expected one of {'; '.join(_LOGGING_TYPES)}.")


def _queues(source: DefinitionSource, where: Where, namespace: Table) -> Iterator[EntityDefinition]:
    for place, queue in fields.child_tables(source, where, namespace, "Queues"):
        fields.refuse_unknown(source, place, queue, ("Name", "Properties"))
        name = fields.required_text(source, place, queue, "Name")
        values = _TIME_TO_LIVE | _WINDOW | _DELIVERIES | _properties(source, place, queue, _QUEUE)
        yield EntityDefinition(where=place, path=name, spec=_make_queue(**values))


def _make_queue(**values: object) -> QueueSpec:
    return QueueSpec(**values)  # type: ignore[arg-type]  # each value was read by its field


def _make_topic(**values: object) -> TopicSpec:
    return TopicSpec(**values)  # type: ignore[arg-type]  # each value was read by its field


def _topics(source: DefinitionSource, where: Where, namespace: Table) -> Iterator[EntityDefinition]:
    for place, topic in fields.child_tables(source, where, namespace, "Topics"):
        fields.refuse_unknown(source, place, topic, ("Name", "Properties", "Subscriptions"))
        name = fields.required_text(source, place, topic, "Name")
        values = _TIME_TO_LIVE | _WINDOW | _properties(source, place, topic, _TOPIC)
        yield EntityDefinition(where=place, path=name, spec=_make_topic(**values))
        for child_place, child in fields.child_tables(source, place, topic, "Subscriptions"):
            yield _subscription(source, child_place, child, name)


def _subscription(
    source: DefinitionSource, where: Where, table: Table, topic: str
) -> EntityDefinition:
    fields.refuse_unknown(source, where, table, ("Name", "Properties", "Rules"))
    name = fields.required_text(source, where, table, "Name")
    values = _TIME_TO_LIVE | _DELIVERIES | _properties(source, where, table, _SUBSCRIPTION)
    places = fields.child_tables(source, where, table, "Rules")
    rules = tuple(_rule(source, place, rule) for place, rule in places)
    spec: SubscriptionSpec = make_subscription(values, rules)
    return EntityDefinition(
        where=where,
        path=subscription_path(topic, name),
        spec=spec,
        rule_places=tuple(place for place, _ in places),
    )


def _properties(
    source: DefinitionSource, where: Where, table: Table, known: Mapping[str, Field]
) -> dict[str, object]:
    place = (*where, "Properties")
    properties = fields.child_table(source, place, table.get("Properties", {}))
    fields.refuse_unknown(source, place, properties, known)
    return fields.read_spec(source, place, properties, known, dict[str, object])


def _rule(source: DefinitionSource, where: Where, table: Table) -> RuleSpec:
    fields.refuse_unknown(source, where, table, ("Name", "Properties"))
    name = fields.required_text(source, where, table, "Name")
    where, properties = fields.required_table(source, where, table, "Properties")
    known = ("FilterType", "SqlFilter", "CorrelationFilter", "Action")
    fields.refuse_unknown(source, where, properties, known)
    action = _expression(source, where, properties, "Action") if "Action" in properties else ""
    # The vendor's schema allows both filters; FilterType says which one counts.
    match fields.required_text(source, where, properties, "FilterType"):
        case "Sql":
            return RuleSpec(
                name=name,
                filter_type=FilterType.SQL,
                sql_expression=_expression(source, where, properties, "SqlFilter"),
                action=action,
            )
        case "Correlation":
            place, conditions = fields.required_table(
                source, where, properties, "CorrelationFilter"
            )
            conditions = {k: v for k, v in conditions.items() if k not in _WITHOUT_MEANING}
            return RuleSpec(
                name=name,
                filter_type=FilterType.CORRELATION,
                sql_expression="",
                correlation=read_correlation(source, place, conditions, _CORRELATION),
                action=action,
            )
        case other:
            raise source.error(
                (*where, "FilterType"), f"'{other}' is not allowed; allowed: Correlation, Sql."
            )


def _expression(source: DefinitionSource, where: Where, table: Table, key: str) -> str:
    place, child = fields.required_table(source, where, table, key)
    fields.refuse_unknown(source, place, child, ("SqlExpression", *_WITHOUT_MEANING))
    return fields.required_text(source, place, child, "SqlExpression")
