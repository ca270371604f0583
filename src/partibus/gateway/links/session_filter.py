"""The filter by which an attach asks for a session, and its answer.

Owns both forms of it: the plain one, for a session that its receiver holds alone, and the
vendor's list for a session that another receiver may take over (SES-26). The answer has the shape
of the question (amqp-contract rule 6). Read once per link; it knows nothing of fragments.
"""

import uuid
from collections.abc import Mapping
from typing import Final

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Described
from partibus.domain.annotations import SESSION_FILTER
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import SESSION_ID_LENGTH_MAX

NON_EXCLUSIVE_FILTERS: Final = (
    "com.microsoft:non-exclusive-session-filter:list",
    "com.microsoft:non-exclusive-session-filter",
)
"""The name of the list's type, which .NET uses as key, and the same without its suffix."""


class SessionFilter:
    """What an attach asks for: which session, exclusively or not, and whose place to take."""

    __slots__ = ("_filters", "_key", "is_exclusive", "session_id", "token")

    def __init__(self, filters: Mapping[str, object], key: str) -> None:
        self._filters = filters
        self._key = key
        self.is_exclusive = key == SESSION_FILTER
        self.token: uuid.UUID | None = None
        """The lock of the receiver to be replaced (SES-27)."""
        asked = filters[key]
        value = asked.value if isinstance(asked, Described) else asked
        if not self.is_exclusive:
            value, self.token = _fields(value)
        self.session_id = _session_id(value)

    def answered(self, session_id: str, token: uuid.UUID) -> dict[str, object]:
        """All filters of the attach, with the granted session in this one."""
        asked = self._filters[self._key]
        given: object = session_id if self.is_exclusive else [session_id, token]
        answer = Described(asked.descriptor, given) if isinstance(asked, Described) else given
        return {**self._filters, self._key: answer}


def session_filter(filters: Mapping[str, object]) -> SessionFilter | None:
    """The filter for a session among those of an attach, if there is one."""
    keys = [key for key in (SESSION_FILTER, *NON_EXCLUSIVE_FILTERS) if key in filters]
    if len(keys) > 1:
        raise ArgumentError(f"The filters '{keys[0]}' and '{keys[1]}' exclude each other; use one.")
    return SessionFilter(filters, keys[0]) if keys else None


def _fields(value: object) -> tuple[object, uuid.UUID | None]:
    """Session id and lock token; trailing fields that are null may be absent [1.4]."""
    if not isinstance(value, list) or len(value) > 2:
        raise ArgumentError(
            "A non-exclusive session filter must be a list of a session id and a lock token."
        )
    session_id, token = [*value, None, None][:2]
    if token is not None and not isinstance(token, uuid.UUID):
        raise ArgumentError("The lock token of a non-exclusive session must be null or a uuid.")
    return session_id, token


def _session_id(value: object) -> str | None:
    """The session that a filter names; None for any."""
    if value is None:
        return None
    session_id = text_of(value) if is_text(value) else None
    if session_id is None or len(session_id) > SESSION_ID_LENGTH_MAX:
        raise ArgumentError(
            f"The session filter must be null or a string of up to {SESSION_ID_LENGTH_MAX} "
            "characters."
        )
    return session_id
