"""Application properties as HTTP headers, one each (HTP-1).

Owns which headers are properties and how values are written: texts in double quotes, numbers and
booleans without, times in quotes as HTTP writes them. Within quotes non-ASCII characters are
escaped as in JSON, so that any text is possible and none can break out of its header. A property
that cannot be a header, because of its name or its meaning in HTTP, is left out on delivery.
"""

import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from partibus.amqp.codec.types import Timestamp
from partibus.domain.errors import ArgumentError
from partibus.rest.http_date import from_http_date, to_http_date

# Headers of HTTP itself, of proxies and of tracing; never a property of a message.
# fmt: off
_NOT_PROPERTIES: Final = frozenset((
    "accept", "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "age",
    "allow", "alt-svc", "authorization", "baggage", "brokerproperties", "cache-control",
    "connection", "content-encoding", "content-language", "content-length", "content-location",
    "content-range", "content-type", "cookie", "date", "etag", "expect", "expires",
    "forwarded", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "keep-alive", "last-modified", "location", "max-forwards", "origin",
    "pragma", "proxy-authenticate", "proxy-authorization", "proxy-connection", "range",
    "referer", "retry-after", "servicebusauthorization", "server", "set-cookie",
    "strict-transport-security", "te", "traceparent", "tracestate", "trailer",
    "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning", "www-authenticate",
    "x-real-ip", "x-request-id",
))
# fmt: on
_NOT_PREFIXES: Final = ("access-control-", "sec-", "x-forwarded-", "x-ms-")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_LONG_MIN: Final = -(1 << 63)
_LONG_MAX: Final = (1 << 63) - 1


def is_property(name: str) -> bool:
    """Whether a header is an application property."""
    lowered = name.lower()
    return lowered not in _NOT_PROPERTIES and not lowered.startswith(_NOT_PREFIXES)


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, object]:
    """The properties among the headers of a request, with names in their original case."""
    found: dict[str, object] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        if is_property(name):
            found[name] = read_value(text_of(raw_value), name)
    return found


def text_of(raw: bytes) -> str:
    """A header's bytes as text: UTF-8 if valid, as most programs send it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def read_value(text: str, name: str) -> object:
    """The value of a header's text."""
    if text.startswith('"'):
        return _quoted(text, name)
    if text in ("true", "false", "True", "False"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text) and _LONG_MIN <= int(text) <= _LONG_MAX:
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        if math.isfinite(number):
            return number
    # Programs that do not use the quotes mean a string.
    return text


def _quoted(text: str, name: str) -> object:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        value = text[1:-1] if len(text) > 1 and text.endswith('"') else None
    if not isinstance(value, str):
        raise ArgumentError(f"The property '{name}' has no closing quote.")
    at_ms = from_http_date(value)
    return Timestamp(at_ms) if at_ms is not None else value


def write_headers(properties: Mapping[str, object]) -> list[tuple[bytes, bytes]]:
    """The headers of a message that is received."""
    written = []
    for name, value in properties.items():
        if _NAME.fullmatch(name) and is_property(name):
            text = write_value(value)
            if text is not None:
                written.append((name.encode(), text.encode()))
    return written


def write_value(value: object) -> str | None:
    """A value as a header's text; None if it has no such form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        return json.dumps(to_http_date(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else None
    if isinstance(value, str):
        return json.dumps(str(value))
    return json.dumps(str(value)) if isinstance(value, uuid.UUID) else None
