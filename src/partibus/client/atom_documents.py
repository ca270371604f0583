"""Atom documents of the management API: entries read, and the bodies of requests written.

Owns the XML (amqp-contract 12.3-12.6): namespaces, typed values, descriptions of entities and rules
as plain dictionaries. Answers are parsed by a reader that refuses entities and external references.
Must never send anything: `client.atom` does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from xml.etree.ElementTree import Element, tostring

from defusedxml.ElementTree import fromstring

from partibus.domain.entity_properties import (
    CONDITIONS,
    DESCRIPTIONS,
    PROPERTIES,
    EntityProperty,
    Kind,
    pascal_case,
)

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
_COUNTS: Final = {
    "ActiveMessageCount": "active",
    "DeadLetterMessageCount": "dead_letter",
    "ScheduledMessageCount": "scheduled",
    "TransferMessageCount": "transfer",
    "TransferDeadLetterMessageCount": "transfer_dead_letter",
}
_FACTS: Final = {
    "SizeInBytes": "size_in_bytes",
    "MessageCount": "message_count",
    "SubscriptionCount": "subscription_count",
    "CreatedAt": "created_at",
    "UpdatedAt": "updated_at",
    "AccessedAt": "accessed_at",
    "EntityAvailabilityStatus": "availability",
}
_CONDITIONS: Final = {field: pascal_case(field) for field in CONDITIONS}
_ALWAYS: Final = "1=1"
_TIMES: Final = {"dateTime": "time", "duration": "duration"}
"""Types of XML Schema, and the key of such a value in a definitions file."""

Fields = dict[str, Any]


@dataclass(slots=True, frozen=True)
class Entry:
    """One entry: its name, and the description element as received."""

    name: str
    description: Element


@dataclass(slots=True, frozen=True)
class Feed:
    """A page of entries, and where the next page begins."""

    entries: list[Entry]
    next_skip: int | None


# --- reading ----------------------------------------------------------------------------------


def read_document(body: bytes) -> Feed:
    """A feed, or an entry as a feed of one; ParseError when it is not XML."""
    root = fromstring(body)
    if _local(root) == "entry":
        return Feed(list(_entries([root])), None)
    return Feed(list(_entries(root.findall(f"{{{ATOM}}}entry"))), _next_skip(root))


def _entries(elements: list[Element]) -> Iterator[Entry]:
    for element in elements:
        content = element.find(f"{{{ATOM}}}content")
        title = element.findtext(f"{{{ATOM}}}title") or ""
        if content is not None and len(content):
            yield Entry(title, content[0])


def _next_skip(root: Element) -> int | None:
    for link in root.findall(f"{{{ATOM}}}link"):
        if link.get("rel") == "next":
            (skip,) = parse_qs(urlsplit(link.get("href", "")).query).get("$skip", ["0"])
            return int(skip)
    return None


def error_detail(body: bytes) -> str:
    """The text of an error document; the raw text when it is not one."""
    try:
        root = fromstring(body)
        return root.findtext("Detail") or "".join(root.itertext()).strip()
    except Exception:  # whatever it is, it is the server's answer
        return body.decode(errors="replace").strip()


def entity_fields(entry: Entry, kind: Kind) -> Fields:
    """An entity by names: its properties, and what the server reports about it."""
    texts = {_local(child): child.text or "" for child in entry.description}
    shown: Fields = {"name": entry.name}
    for field in PROPERTIES[kind]:
        if field.element in texts:
            shown[field.key] = _value(field, texts[field.element])
    for element, key in _FACTS.items():
        if element in texts:
            text = texts[element]
            shown[key] = int(text) if text.isdigit() else text
    counts = _child(entry.description, "CountDetails")
    if counts is not None:
        shown["counts"] = {
            _COUNTS[_local(c)]: int(c.text or 0) for c in counts if _local(c) in _COUNTS
        }
    return shown


def rule_fields(entry: Entry) -> Fields:
    """A rule by names, as a definitions file writes it."""
    shown: Fields = {"name": entry.name}
    filtered = _child(entry.description, "Filter")
    if filtered is not None:
        kind = _type(filtered)
        expression = _text(filtered, "SqlExpression")
        if kind == "CorrelationFilter":
            shown["correlation_filter"] = _conditions(filtered)
        elif kind == "FalseFilter":
            shown["sql_filter"] = "1=0"
        elif kind != "TrueFilter" and expression != _ALWAYS:
            shown["sql_filter"] = expression
        shown |= _named("parameters", filtered, "Parameters")
    action = _child(entry.description, "Action")
    if action is not None and _text(action, "SqlExpression"):
        shown["action"] = _text(action, "SqlExpression")
        shown |= _named("action_parameters", action, "Parameters")
    return shown


def _conditions(filtered: Element) -> Fields:
    found: Fields = {
        key: text for key, name in _CONDITIONS.items() if (text := _text(filtered, name))
    }
    return found | _named("properties", filtered, "Properties")


def _named(key: str, parent: Element, holder_name: str) -> Fields:
    """Names with typed values under one key; nothing when there are none."""
    holder = _child(parent, holder_name)
    pairs = list(holder) if holder is not None else []
    values = {_text(pair, "Key"): _typed(_child(pair, "Value")) for pair in pairs}
    return {key: values} if values else {}


def _typed(value: Element | None) -> object:
    if value is None:
        return None
    text, kind = value.text or "", _type(value)
    if kind in ("int", "long", "short", "byte"):
        return int(text)
    if kind in ("double", "float", "decimal"):
        return float(text)
    if kind in _TIMES:
        return {_TIMES[kind]: text}
    return text == "true" if kind == "boolean" else text


def _value(field: EntityProperty, text: str) -> object:
    if field.form == "boolean":
        return text == "true"
    return int(text) if field.form == "integer" and text.isdigit() else text


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if _local(child) == name), None)


def _text(element: Element, name: str) -> str:
    child = _child(element, name)
    return "" if child is None else child.text or ""


def _type(element: Element) -> str:
    return element.get(f"{{{INSTANCE}}}type", "").rpartition(":")[2]


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


# --- writing ----------------------------------------------------------------------------------


def entity_document(
    kind: Kind, fields: Mapping[str, object], default_rule: Mapping[str, Any] | None = None
) -> str:
    """The entry that creates an entity with these properties, and a subscription's first rule."""
    inner = ""
    for field in PROPERTIES[kind]:
        if field.element == "MaxDeliveryCount" and default_rule is not None:
            inner += f"<DefaultRuleDescription>{_rule(default_rule)}</DefaultRuleDescription>"
        if field.key in fields:
            inner += _leaf(field.element, written(field, fields[field.key]))
    return _entry(DESCRIPTIONS[kind], inner)


def updated_document(entry: Entry, kind: Kind, fields: Mapping[str, object]) -> str:
    """The entry that updates an entity: its current properties, with these replaced."""
    order = [field.element for field in PROPERTIES[kind]]
    for field in PROPERTIES[kind]:
        if field.key not in fields:
            continue
        element = _child(entry.description, field.element)
        if element is None:
            element = Element(f"{{{SERVICE_BUS}}}{field.element}")
            entry.description.insert(_place(entry.description, field.element, order), element)
        element.text = written(field, fields[field.key])
        if not element.text and field.form == "text":
            entry.description.remove(element)
    raw = tostring(entry.description, "unicode", default_namespace=SERVICE_BUS)
    return _wrapped(raw)


def _place(description: Element, name: str, order: list[str]) -> int:
    """After the last element that precedes it in the vendor's order."""
    before = order[: order.index(name)]
    places = [at for at, child in enumerate(description) if _local(child) in before]
    return places[-1] + 1 if places else 0


def rule_document(fields: Mapping[str, Any]) -> str:
    """The entry that creates a rule; without a filter it selects every message."""
    return _entry("RuleDescription", _rule(fields))


def written(field: EntityProperty, value: object) -> str:
    """A value as the text of its element."""
    if field.form == "boolean":
        return "true" if value else "false"
    return str(value)


def _rule(fields: Mapping[str, Any]) -> str:
    correlation = fields.get("correlation_filter")
    sql = fields.get("sql_filter")
    if correlation is not None:
        inner = "".join(
            _leaf(n, str(correlation[k])) for k, n in _CONDITIONS.items() if k in correlation
        )
        inner += _values("Properties", correlation.get("properties", {}))
        filtered = f'<Filter i:type="CorrelationFilter">{inner}</Filter>'
    else:
        kind = "TrueFilter" if sql is None else "SqlFilter"
        expression = _expression(sql or _ALWAYS, fields.get("parameters", {}))
        filtered = f'<Filter i:type="{kind}">{expression}</Filter>'
    action = fields.get("action")
    if action:
        expression = _expression(action, fields.get("action_parameters", {}))
        acted = f'<Action i:type="SqlRuleAction">{expression}</Action>'
    else:
        acted = '<Action i:type="EmptyRuleAction" />'
    return f"{filtered}{acted}{_leaf('Name', str(fields['name']))}"


def _expression(text: str, parameters: Mapping[str, object]) -> str:
    expression = _leaf("SqlExpression", text) + _leaf("CompatibilityLevel", "20")
    return expression + _values("Parameters", parameters)


def _values(holder: str, values: Mapping[str, object]) -> str:
    pairs = "".join(
        f"<KeyValueOfstringanyType>{_leaf('Key', key)}"
        f'<Value i:type="d6p1:{kind}" xmlns:d6p1="{SCHEMA}">{escape(text)}</Value>'
        "</KeyValueOfstringanyType>"
        for key, (kind, text) in ((key, _spelt(value)) for key, value in values.items())
    )
    return f"<{holder}>{pairs}</{holder}>" if pairs else ""


def _spelt(value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    if isinstance(value, int):
        return ("int" if -(2**31) <= value < 2**31 else "long"), str(value)
    if isinstance(value, float):
        return "double", repr(value)
    if isinstance(value, Mapping):
        ((word, text),) = value.items()
        return next(kind for kind, known in _TIMES.items() if known == word), str(text)
    return "string", str(value)


def _leaf(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def _entry(name: str, inner: str) -> str:
    return _wrapped(f'<{name} xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}">{inner}</{name}>')


def _wrapped(description: str) -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>'
        f'<entry xmlns="{ATOM}"><content type="application/xml">{description}</content></entry>'
    )
