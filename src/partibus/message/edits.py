"""A copy that a rule's action has changed: the edits applied to a stored message (ACT-4).

Owns how the edits of a rule are applied to the sections of a stored message, and the property
RuleName of such a copy (FLT-4). Values are only stored: a schedule time or a message id set by an
action has no other effect (ACT-5). Called by the selector; must never change the original message.
"""

import datetime
import uuid
from typing import Final

from partibus.amqp.codec.encode import EncodeError, encode_symbol, encode_value
from partibus.amqp.codec.sections import encode_application_properties, encode_properties
from partibus.amqp.codec.types import Described, Symbol, Timestamp
from partibus.domain.annotations import TIMESPAN
from partibus.domain.limits import HEADER_BYTES_MAX
from partibus.domain.moments import timestamp_ms
from partibus.fragment.message import NewMessage
from partibus.message import lifetime
from partibus.message.view import ANNOTATED, StoredView
from partibus.rules.action import REMOVED, Edit
from partibus.rules.errors import EvaluationError
from partibus.rules.ruleset import Match
from partibus.rules.view import TICKS_PER_MICROSECOND, span_ms

RULE_NAME: Final = "RuleName"
_TIMESPAN: Final = Symbol(TIMESPAN)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_PROPERTIES: Final = {
    "messageid": "message_id",
    "correlationid": "correlation_id",
    "label": "subject",
    "to": "to",
    "replyto": "reply_to",
    "sessionid": "group_id",
    "replytosessionid": "reply_to_group_id",
    "contenttype": "content_type",
}


class HeaderTooLarge(Exception):
    """The action has made header and properties larger than they may be (DLQ-6)."""


def rewrite(view: StoredView, match: Match) -> NewMessage:
    """The copy that a rule with an action makes; raises if it cannot be made."""
    assert match.action is not None
    copy = _Copy(view)
    for edit in match.action.apply(view):
        copy.apply(edit)
    copy.application[RULE_NAME] = match.rule_name
    return copy.finished()


class _Copy:
    """One copy being built."""

    __slots__ = (
        "_annotations",
        "_enqueued_ms",
        "_rest",
        "_sequence",
        "application",
        "parts",
        "properties",
    )

    def __init__(self, view: StoredView) -> None:
        # A separate view: several rules may each make a copy of the same message.
        own = view.twin()
        self.parts = own.parts
        self.properties = own.properties
        self.application = dict(own.application)
        self._annotations = dict(own.annotations)
        self._sequence = view.sequence
        self._enqueued_ms = view.enqueued_ms
        sections = own.sections
        rest = max(sections.properties_end, sections.application_end, 0)
        self._rest = self.parts.bare[rest:]

    def apply(self, edit: Edit) -> None:
        """Apply one edit."""
        value = None if edit.value is REMOVED else edit.value
        if edit.scope == "user":
            self._set_user(edit.name, edit.value)
        elif edit.name in ANNOTATED:
            self._set_annotation(ANNOTATED[edit.name], value)
        elif edit.name == "timetolive":
            self._set_life(value)
        else:
            self._set_property(edit.name, None if value is None else str(value))

    def _set_life(self, value: object) -> None:
        """A value that exceeds the size of a row means no limit."""
        life_ms = span_ms(value) if isinstance(value, datetime.timedelta) else lifetime.FOREVER
        is_limited = 0 <= life_ms <= lifetime.LIFE_MS_MAX
        self.parts.ttl_ms = life_ms if is_limited else lifetime.FOREVER

    def _set_user(self, name: str, value: object) -> None:
        """Sets an existing property in whatever case it is written (SQL-3)."""
        lowered = name.lower()
        known = next((key for key in self.application if key.lower() == lowered), name)
        if value is REMOVED:
            self.application.pop(known, None)
        else:
            self.application[known] = _encodable(value, self.application.get(known))

    def _set_annotation(self, name: str, value: object) -> None:
        if value is None:
            self._annotations.pop(name, None)
        elif isinstance(value, datetime.datetime):
            self._annotations[name] = Timestamp(timestamp_ms(value))
        else:
            self._annotations[name] = value

    def _set_property(self, name: str, text: str | None) -> None:
        if name not in _PROPERTIES:
            raise EvaluationError(f"The system property '{name}' cannot be set.")
        # Clients settle by the message id, so there is always one (amqp-contract 8.2).
        given = text or uuid.uuid4().hex if name == "messageid" else text
        setattr(self.properties, _PROPERTIES[name], given)

    def finished(self) -> NewMessage:
        """The copy as it will be stored."""
        parts = self.parts
        lifetime.keep(self.properties, parts.ttl_ms, self._enqueued_ms)
        try:
            head = encode_properties(self.properties)
            head += encode_application_properties(self.application)
            parts.annotations = b"".join(
                encode_symbol(key) + encode_value(value) for key, value in self._annotations.items()
            )
        except EncodeError as error:
            raise EvaluationError(str(error)) from error
        parts.annotation_count = len(self._annotations)
        parts.head_bytes = len(head) + len(parts.annotations)
        if parts.head_bytes > HEADER_BYTES_MAX:
            raise HeaderTooLarge
        parts.bare = head + self._rest
        parts.came_from(self._sequence)
        return NewMessage(parts.encode(), parts.ttl_ms, 0, self.properties.group_id)


def on_wire(value: object) -> object:
    """A rule's value as AMQP: times become timestamps, durations those of .NET."""
    if isinstance(value, datetime.datetime):
        return Timestamp(timestamp_ms(value))
    if isinstance(value, datetime.timedelta):
        return Described(_TIMESPAN, value // _MICROSECOND * TICKS_PER_MICROSECOND)
    return value


def _encodable(value: object, before: object) -> object:
    """A rule's value as AMQP, in the type that the property had, if it fits (ACT-2)."""
    if isinstance(value, datetime.datetime | datetime.timedelta):
        return on_wire(value)
    if isinstance(value, bool) or isinstance(before, bool):
        return value
    for kind in (int, float, str):
        if type(value) is kind and isinstance(before, kind) and type(before) is not kind:
            kept = type(before)(value)
            try:
                encode_value(kept)
            except EncodeError:
                return value
            return kept
    return value
