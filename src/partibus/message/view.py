"""A stored message as rules see it: its properties, decoded on demand.

Owns the names of system properties on the wire and the Python values of AMQP's types, both as
`partibus.rules.view` wants them. Never reads a body (FLT-6). Made by the selector for each
message whose rules look at properties.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.section_walk import read_descriptor
from partibus.amqp.codec.sections import (
    MessageProperties,
    MessageSections,
    decode_application_properties,
    decode_properties,
    parse_sections,
)
from partibus.amqp.codec.text import text_of, text_of_binary
from partibus.amqp.codec.types import Decimal32, Decimal64, Decimal128, Described, Timestamp
from partibus.domain.annotations import PARTITION_KEY, SCHEDULED_TIME, TIMESPAN, VIA_PARTITION_KEY
from partibus.domain.moments import calendar_moment
from partibus.message.envelope import Stored
from partibus.rules.view import ABSENT, span, span_of_ticks

_TEXT_FIELDS: Final = {
    "messageid": 0,
    "to": 2,
    "label": 3,
    "replyto": 4,
    "correlationid": 5,
    "contenttype": 6,
    "sessionid": 10,
    "replytosessionid": 12,
}
"""Places in the properties section [3.2.4]."""
ANNOTATED: Final = {
    "scheduledenqueuetimeutc": SCHEDULED_TIME,
    "partitionkey": PARTITION_KEY,
    "viapartitionkey": VIA_PARTITION_KEY,
}
"""System properties that are annotations on the wire."""
_DECIMALS: Final = (Decimal32, Decimal64, Decimal128)
_PLAIN: Final = frozenset((str, int, float, bool, UUID, type(None)))
"""Types that need no conversion."""


class StoredView:
    """One message while it is matched by a topic's rules."""

    __slots__ = (
        "_annotations",
        "_application",
        "_fields",
        "_lowered",
        "_sections",
        "_stored",
        "enqueued_ms",
        "parts",
        "sequence",
    )

    def __init__(self, stored: bytes, sequence: int, enqueued_ms: int) -> None:
        self.parts = Stored(stored)
        self.sequence = sequence
        """As clients see it."""
        self._stored = stored
        self.enqueued_ms = enqueued_ms
        self._sections: MessageSections | None = None
        self._fields: list[object] | None = None
        self._application: dict[str, object] | None = None
        self._lowered: dict[str, object] | None = None
        self._annotations: dict[str, object] | None = None

    def twin(self) -> "StoredView":
        """Another view of the same message, which may be changed."""
        return StoredView(self._stored, self.sequence, self.enqueued_ms)

    # --- what is encoded --------------------------------------------------------------------

    @property
    def sections(self) -> MessageSections:
        """Where the sections of the bare message are."""
        if self._sections is None:
            self._sections = parse_sections(self.parts.bare)
        return self._sections

    @property
    def properties(self) -> MessageProperties:
        """The properties section, decoded again."""
        return decode_properties(self.parts.bare, self.sections)

    def _field(self, place: int) -> object:
        """One field of the properties section; trailing ones may be left out [1.4]."""
        if self._fields is None:
            self._fields = []
            start, end = self.sections.properties_offset, self.sections.properties_end
            if start >= 0:
                _, at = read_descriptor(self.parts.bare, start, end)
                decoded, _ = decode_value(self.parts.bare, at, end)
                assert isinstance(decoded, list)
                self._fields = decoded
        return self._fields[place] if place < len(self._fields) else None

    @property
    def application(self) -> dict[str, object]:
        """The application properties, with the types they have on the wire."""
        if self._application is None:
            self._application = decode_application_properties(self.parts.bare, self.sections)
        return self._application

    @property
    def annotations(self) -> dict[str, object]:
        """The sender's annotations."""
        if self._annotations is None:
            self._annotations = _pairs(self.parts.annotations)
        return self._annotations

    # --- what rules ask for -----------------------------------------------------------------

    def system(self, name: str) -> object:
        """The system property with that canonical lower-case name; None when it is unset."""
        place = _TEXT_FIELDS.get(name)
        if place is not None:
            return text_of(self._field(place))
        if name in ANNOTATED:
            value = self.annotations.get(ANNOTATED[name])
            return plain(value) if name == "scheduledenqueuetimeutc" else text_of(value)
        return self._of_broker(name)

    def _of_broker(self, name: str) -> object:
        ttl_ms = self.parts.ttl_ms
        if name in ("sequencenumber", "enqueuedsequencenumber"):
            return self.sequence
        if name == "enqueuedtimeutc":
            return calendar_moment(self.enqueued_ms)
        if name == "timetolive":
            return None if ttl_ms < 0 else span(ttl_ms)
        if name == "expiresatutc":
            return None if ttl_ms < 0 else calendar_moment(self.enqueued_ms + ttl_ms)
        if name == "deliverycount":
            return 0
        return len(self._stored) if name == "size" else None

    def user(self, name_lower: str) -> object:
        """The application property with that name in any case, or `ABSENT`."""
        return self._by_lower_name().get(name_lower, ABSENT)

    def names(self) -> Collection[str]:
        """The lower-case names of all application properties."""
        return self._by_lower_name().keys()

    def _by_lower_name(self) -> dict[str, object]:
        if self._lowered is None:
            self._lowered = {key.lower(): plain(item) for key, item in self.application.items()}
        return self._lowered


def plain(value: object) -> object:
    """An AMQP value in a type that the operators of rules support; others stay unchanged."""
    if type(value) in _PLAIN or isinstance(value, _DECIMALS):
        return value
    if isinstance(value, bytes):
        text = text_of_binary(value)
        return value if text is None else text
    if isinstance(value, Timestamp):
        return calendar_moment(int(value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Described):
        return _duration(value)
    return float(value) if isinstance(value, float) else value


def _duration(value: Described) -> object:
    """The duration in a described value; rules know no other described values."""
    if value.descriptor == TIMESPAN and isinstance(value.value, int):
        return span_of_ticks(int(value.value))
    return value


def _pairs(encoded: bytes) -> dict[str, object]:
    items: dict[str, object] = {}
    at = 0
    end = len(encoded)
    while at < end:
        key, at = decode_value(encoded, at, end)
        value, at = decode_value(encoded, at, end)
        items[str(key)] = value
    return items
