"""A dead letter as it is sent again: counted, corrected, delayed, under an accepted id.

Owns how a rule changes one message, and where it goes. Body, properties, session and key stay as
they are unless the rule says otherwise. Pure; the time is an argument. It must never decide
anything: a message that cannot be rewritten is reported to the caller, which leaves it in place.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from partibus.client.message import DEAD_LETTER_PROPERTIES, IncomingMessage
from partibus.domain.partition_key import fragment_index
from partibus.domain.sequence import fragment_of
from pyspark_servicebus.pipelines.deadletters.rules import ATTEMPTS_PROPERTY, Rule, attempts_of

PARKED_REASON: Final = "x-partibus-dead-letter-reason"
PARKED_DESCRIPTION: Final = "x-partibus-dead-letter-description"
PARKED_SOURCE: Final = "x-partibus-dead-letter-source"
ID_CHARACTERS_MAX: Final = 128
_TRIES_MAX: Final = 10_000


class NotFixable(Exception):
    """A rule cannot be carried out on a message; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where messages go, and the relevant properties."""

    path: str
    fragments: int
    is_own: bool
    """The queue of the dead letter itself, or the topic of its subscription: a transaction then
    stays within the dead letter's fragment (TXN-13)."""
    detects_duplicates: bool


def own_entity(path: str) -> str:
    """The entity that messages of a path are sent to: the queue, or the topic."""
    at = path.lower().find("/subscriptions/")
    return path if at < 0 else path[:at]


def rewritten(
    message: IncomingMessage, rule: Rule, source: str, goal: Destination, now_ms: int
) -> bytes:
    """The message that a rule sends; NotFixable when there is none."""
    properties = message.own_properties()
    attempts = attempts_of(properties)
    for name in rule.remove_properties:
        properties.pop(name, None)
    properties.update(rule.set_properties)
    if rule.action == "park":
        properties.update(_epitaph(message, source))
    else:
        properties[ATTEMPTS_PROPERTY] = attempts + 1
    delay_ms = rule.delay_after(attempts)
    message_id = _message_id(message, rule, goal, attempts + 1)
    return message.resent(
        message_id,
        properties=properties,
        body=merged_body(message, rule),
        partition_key=_partition_key(message, goal),
        scheduled_ms=now_ms + delay_ms if delay_ms else None,
    )


def _epitaph(message: IncomingMessage, source: str) -> dict[str, object]:
    """Why and where it was dead-lettered, which would be lost with the dead-letter queue."""
    reported = message.application_properties
    values = [reported.get(name) for name in DEAD_LETTER_PROPERTIES]
    names = (PARKED_REASON, PARKED_DESCRIPTION)
    found = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    return {**found, PARKED_SOURCE: source}


# --- the body ---------------------------------------------------------------------------------


def merged_body(message: IncomingMessage, rule: Rule) -> bytes | None:
    """The body with the rule's patch; None when it stays as it is."""
    if rule.body_merge is None:
        return None
    kind, body = message.body()
    if kind != "data" or not isinstance(body, bytes):
        raise NotFixable(f"its body is an AMQP {kind}, but body_merge needs JSON")
    return patched(body, rule.body_merge)


def patched(body: bytes, patch: object) -> bytes:
    """JSON with a merge patch (RFC 7396) applied."""
    try:
        document = json.loads(body)
    except ValueError:
        raise NotFixable("its body is not JSON, which body_merge needs") from None
    return json.dumps(_merge(document, patch), ensure_ascii=False, separators=(",", ":")).encode()


def _merge(target: object, patch: object) -> object:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


# --- its id and key -----------------------------------------------------------------------


def _own_fragment(message: IncomingMessage) -> int:
    return fragment_of(message.sequence_number)


def _has_key(message: IncomingMessage) -> bool:
    return message.properties.group_id is not None or message.partition_key is not None


def _partition_key(message: IncomingMessage, goal: Destination) -> str | None:
    """A key for a message without one, which a transaction needs to find its fragment."""
    if goal.fragments == 1 or _has_key(message) or goal.detects_duplicates:
        return None
    if not goal.is_own:
        return f"resubmit.{message.sequence_number}"  # any fragment, but not always the same
    return _landing("resubmit", _own_fragment(message), goal.fragments)


def _message_id(
    message: IncomingMessage, rule: Rule, goal: Destination, attempt: int
) -> str | None:
    """A new id where duplicates are detected, since the old one may still be remembered there and
    the message would be dropped; None keeps the id."""
    if rule.message_id == "keep" or (rule.message_id == "auto" and not goal.detects_duplicates):
        return None
    old = str(message.properties.message_id or message.sequence_number)
    new = f"{old}#{attempt}"
    if len(new) > ID_CHARACTERS_MAX - 8:
        new = f"{hashlib.sha256(old.encode()).hexdigest()}#{attempt}"
    # There the id is the key of a message without another.
    if goal.is_own and goal.fragments > 1 and goal.detects_duplicates and not _has_key(message):
        return _landing(new, _own_fragment(message), goal.fragments)
    return new


def _landing(prefix: str, fragment: int, fragments: int) -> str:
    """A text with this prefix whose hash selects a fragment."""
    for number in range(_TRIES_MAX):
        text = f"{prefix}.{number}" if number else prefix
        if fragment_index(text, fragments) == fragment:
            return text
    raise NotFixable(f"no key selects fragment {fragment} of {fragments}")
