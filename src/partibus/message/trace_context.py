"""The trace that a stored message belongs to, as its sender wrote it.

Owns the reading of `traceparent`, `tracestate` and the older `Diagnostic-Id` among the application
properties. Must never change a message, or decode one that has none of them. Called only on servers
that export traces.
"""

import re
from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.text import text_of
from partibus.domain.limits import HEADER_BYTES_MAX
from partibus.message.view import StoredView

TRACEPARENT: Final = "traceparent"
DIAGNOSTIC_ID: Final = "Diagnostic-Id"
TRACESTATE: Final = "tracestate"
STATE_CHARS_MAX: Final = 512
"""A longer tracestate is left out, as W3C Trace Context (3.3.1.5) allows."""
_NAMES: Final = (TRACEPARENT.encode(), DIAGNOSTIC_ID.encode())
# Versions after 00 may append fields [W3C Trace Context 3.2.4].
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SEARCHED_BYTES: Final = 2 * HEADER_BYTES_MAX
"""Properties come before the body, and these bytes hold all of them."""


@dataclass(eq=False, slots=True)
class TraceContext:
    """A client's span that is the parent of ours."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: str = ""


@dataclass(eq=False, slots=True)
class TracedMessage:
    """A message that is part of a sampled trace."""

    context: TraceContext
    message_id: str


def traced_message(stored: bytes) -> TracedMessage | None:
    """What tracing needs of a stored message; None when its sender has not sampled it."""
    if not any(stored.find(name, 0, _SEARCHED_BYTES) >= 0 for name in _NAMES):
        return None
    view = StoredView(stored, 0, 0)
    try:
        context = context_of(view.application)
        if context is None or not context.is_sampled:
            return None
        return TracedMessage(context, str(view.system("messageid") or ""))
    except DecodeError:
        return None


def context_of(properties: dict[str, object]) -> TraceContext | None:
    """The context among application properties; `traceparent` takes precedence over
    `Diagnostic-Id`."""
    for name in (TRACEPARENT, DIAGNOSTIC_ID):
        context = parse_traceparent(_text(properties.get(name)))
        if context is not None:
            state = _text(properties.get(TRACESTATE))
            context.state = state if len(state) <= STATE_CHARS_MAX else ""
            return context
    return None


def parse_traceparent(text: str) -> TraceContext | None:
    """Parse a `traceparent`; None if it is not well-formed, which starts no trace [3.2.2]."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1))


def _text(value: object) -> str:
    return text_of(value) or ""
