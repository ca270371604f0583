"""The configuration file of the vendor's emulator, read as it is (EMU-9 to EMU-11).

Owns the emulator's JSON: its keys, its defaults, which differ from the cloud's, and its comments.
Unknown keys and filter types are errors, never dropped silently. It makes the same `Definitions` as
our own file; ranges come from the profile later on.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from partibus.control.declared import fields
from partibus.control.declared.definitions import (
    Definitions,
    EntityDefinition,
    define_subscription,
    refuse_twins,
)
from partibus.control.declared.fields import Field, Section, section
from partibus.control.declared.json_lines import json_lines, strip_comments
from partibus.control.declared.source import DefinitionSource
from partibus.domain.address import subscription_path
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    QueueSpec,
    RuleSpec,
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
    root = section(source, (), _parse(file, content))
    root.refuse_unknown(("UserConfig", "$schema"))
    user = root.child("UserConfig")
    user.refuse_unknown(("Namespaces", "Logging"))
    _check_logging(user)
    namespaces = user.children("Namespaces")
    if len(namespaces) != 1:
        raise user.error("Namespaces", f"exactly one namespace is allowed, not {len(namespaces)}.")
    namespace = namespaces[0]
    namespace.refuse_unknown(("Name", "Queues", "Topics"))
    namespace.text("Name")
    entities = (*_queues(namespace), *_topics(namespace))
    refuse_twins(source, entities)
    return Definitions(source=source, entities=entities)


class _TwinKey(ValueError):
    """A key occurs twice in one object."""


def _parse(file: Path, content: str) -> object:
    try:
        return json.loads(strip_comments(content), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{file}:{error.lineno}: this is not valid JSON: {error.msg} (column {error.colno})."
        ) from error
    except _TwinKey as error:
        raise ConfigError(f"{file}: the key '{error}' appears twice in one object.") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply.") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise _TwinKey(key)
        made[key] = value
    return made


def _check_logging(user: Section) -> None:
    """The emulator's logging has no meaning here, but a wrong value is an error."""
    if "Logging" not in user.table:
        return
    table = user.child("Logging")
    table.refuse_unknown(("Type",))
    if table.text("Type") not in _LOGGING_TYPES:
        raise table.error("Type", f"expected one of {'; '.join(_LOGGING_TYPES)}.")


def _queues(namespace: Section) -> Iterator[EntityDefinition]:
    for queue in namespace.children("Queues"):
        queue.refuse_unknown(("Name", "Properties"))
        name = queue.text("Name")
        values = _TIME_TO_LIVE | _WINDOW | _DELIVERIES | _properties(queue, _QUEUE)
        yield EntityDefinition(where=queue.where, path=name, spec=_make_queue(**values))


def _make_queue(**values: object) -> QueueSpec:
    return QueueSpec(**values)  # type: ignore[arg-type]  # each value was read by its field


def _make_topic(**values: object) -> TopicSpec:
    return TopicSpec(**values)  # type: ignore[arg-type]  # each value was read by its field


def _topics(namespace: Section) -> Iterator[EntityDefinition]:
    for topic in namespace.children("Topics"):
        topic.refuse_unknown(("Name", "Properties", "Subscriptions"))
        name = topic.text("Name")
        values = _TIME_TO_LIVE | _WINDOW | _properties(topic, _TOPIC)
        yield EntityDefinition(where=topic.where, path=name, spec=_make_topic(**values))
        for child in topic.children("Subscriptions"):
            yield _subscription(child, name)


def _subscription(subscription: Section, topic: str) -> EntityDefinition:
    subscription.refuse_unknown(("Name", "Properties", "Rules"))
    path = subscription_path(topic, subscription.text("Name"))
    values = _TIME_TO_LIVE | _DELIVERIES | _properties(subscription, _SUBSCRIPTION)
    rules = {rule.where: _rule(rule) for rule in subscription.children("Rules")}
    return define_subscription(subscription.where, path, values, rules)


def _properties(entity: Section, known: Mapping[str, Field]) -> dict[str, object]:
    properties = entity.optional("Properties")
    properties.refuse_unknown(known)
    return properties.spec(known, dict[str, object])


def _rule(rule: Section) -> RuleSpec:
    rule.refuse_unknown(("Name", "Properties"))
    name = rule.text("Name")
    properties = rule.child("Properties")
    properties.refuse_unknown(("FilterType", "SqlFilter", "CorrelationFilter", "Action"))
    action = _expression(properties, "Action") if "Action" in properties.table else ""
    # The vendor's schema allows both filters; FilterType says which one counts.
    match properties.text("FilterType"):
        case "Sql":
            return RuleSpec(
                name=name,
                filter_type=FilterType.SQL,
                sql_expression=_expression(properties, "SqlFilter"),
                action=action,
            )
        case "Correlation":
            conditions = properties.child("CorrelationFilter")
            meant = {k: v for k, v in conditions.table.items() if k not in _WITHOUT_MEANING}
            conditions = replace(conditions, table=meant)
            conditions.refuse_unknown(_CORRELATION)
            return RuleSpec(
                name=name,
                filter_type=FilterType.CORRELATION,
                sql_expression="",
                correlation=conditions.spec(_CORRELATION, CorrelationFilter),
                action=action,
            )
        case other:
            raise properties.error(
                "FilterType", f"'{other}' is not allowed; allowed: Correlation, Sql."
            )


def _expression(properties: Section, key: str) -> str:
    child = properties.child(key)
    child.refuse_unknown(("SqlExpression", *_WITHOUT_MEANING))
    return child.text("SqlExpression")
