"""Hypothesis strategies: names, ids, properties and messages that the bus accepts.

Owns what is generated, within the limits of every tier of the service, so that a refusal is a
finding and not an error of the generator. Hypothesis is imported only here in the kit; only
`messages` needs the SDK. Public, and stable: see docs/guides/testing.md.
"""

import datetime
import string
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from partibus.domain import limits

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusMessage

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
PROPERTIES_MAX: Final = 8
BODY_BYTES_MAX: Final = 4096
TEXT_LENGTH_MAX: Final = 64
_LETTERS: Final = string.ascii_letters + string.digits
_INNER: Final = _LETTERS + "._-"
_RESERVED: Final = "subscriptions"


def _text(length_max: int, length_min: int = 0) -> st.SearchStrategy[str]:
    """Any text that can be encoded in UTF-8."""
    letters = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
    return st.text(letters, min_size=length_min, max_size=length_max)


def _segments(length_max: int) -> st.SearchStrategy[str]:
    edge, inner = st.sampled_from(_LETTERS), st.text(_INNER, max_size=length_max - 2)
    two = st.tuples(edge, inner, edge).map("".join)
    return edge | two.filter(lambda name: name.lower() != _RESERVED)


def entity_names(length_max: int = 50) -> st.SearchStrategy[str]:
    """Names of queues and topics, some of them with slashes (ENT-6, ENT-7)."""
    assert 4 <= length_max <= limits.ENTITY_PATH_LENGTH_MAX
    parts = st.lists(_segments(max(2, length_max // 2 - 1)), min_size=1, max_size=2)
    return parts.map("/".join)


def subscription_names() -> st.SearchStrategy[str]:
    """Names of subscriptions: one segment (ENT-6)."""
    return _segments(limits.SUBSCRIPTION_NAME_LENGTH_MAX)


def message_ids() -> st.SearchStrategy[str]:
    """Ids of messages (QTA-8)."""
    return _text(limits.MESSAGE_ID_LENGTH_MAX, 1)


def session_ids() -> st.SearchStrategy[str]:
    """Ids of sessions, and partition keys (QTA-8)."""
    return _text(limits.SESSION_ID_LENGTH_MAX, 1)


def property_values() -> st.SearchStrategy[Any]:
    """Values of application properties that every SDK can write.

    The Python SDK writes bytes as text, which not all bytes are, and no integers beyond 32 bits; so
    there are none.
    """
    return st.one_of(
        _text(TEXT_LENGTH_MAX),
        st.booleans(),
        st.integers(INT32_MIN, INT32_MAX),
        st.floats(allow_nan=False),
        st.uuids(),
    )


def properties() -> st.SearchStrategy[dict[str, Any]]:
    """Application properties by name."""
    return st.dictionaries(_text(TEXT_LENGTH_MAX, 1), property_values(), max_size=PROPERTIES_MAX)


def bodies() -> st.SearchStrategy[str | bytes]:
    """Bodies of a message: text or bytes, also none at all."""
    return _text(BODY_BYTES_MAX // 4) | st.binary(max_size=BODY_BYTES_MAX)


def lives() -> st.SearchStrategy[datetime.timedelta]:
    """Times to live that do not end during a test, in whole milliseconds: an hour to 40 days, since
    the Python SDK cannot write 50."""
    hour_ms = 3_600_000
    return st.integers(hour_ms, 40 * 24 * hour_ms).map(
        lambda ms: datetime.timedelta(milliseconds=ms)
    )


def message_fields(*, in_sessions: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """The arguments of an SDK's message; with `in_sessions` each has a session id."""
    optional: dict[str, st.SearchStrategy[Any]] = {
        "application_properties": properties(),
        "message_id": message_ids(),
        "subject": _text(TEXT_LENGTH_MAX),
        "content_type": st.sampled_from(("application/json", "text/plain")),
        "correlation_id": _text(limits.MESSAGE_ID_LENGTH_MAX, 1),
        "to": _text(TEXT_LENGTH_MAX),
        "reply_to": _text(TEXT_LENGTH_MAX),
        "time_to_live": lives(),
    }
    if in_sessions:
        mandatory = {"body": bodies(), "session_id": session_ids()}
        return st.fixed_dictionaries(mandatory, optional=optional)
    optional["partition_key"] = session_ids()
    return st.fixed_dictionaries({"body": bodies()}, optional=optional)


def messages(*, in_sessions: bool = False) -> "st.SearchStrategy[ServiceBusMessage]":
    """Messages of the Python SDK, ready to send."""
    from azure.servicebus import ServiceBusMessage

    return message_fields(in_sessions=in_sessions).map(lambda given: ServiceBusMessage(**given))
