"""Spans of the gateway as the SDK of OpenTelemetry takes them.

Owns the kinds of spans and how an error is reported. The SDK's queue is bounded and exported by a
separate thread: recording never blocks, and what a collector does not accept in time is dropped.
"""

from typing import Final

from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.trace.status import Status, StatusCode

from partibus.gateway.tracing import EndedSpan, Operation
from partibus.message.trace_context import TraceContext

KINDS: Final = {
    Operation.SEND: SpanKind.SERVER,
    Operation.STORE: SpanKind.INTERNAL,
    Operation.DELIVER: SpanKind.PRODUCER,
    Operation.SETTLE: SpanKind.SERVER,
    Operation.FORWARD: SpanKind.PRODUCER,
}


class OtelSpans:
    """Records spans with a tracer of the SDK."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def record(self, span: EndedSpan) -> TraceContext:
        """Accept a span; returns the context that is the parent of its children."""
        made = self._tracer.start_span(
            span.name,
            set_span_in_context(NonRecordingSpan(_remote(span.parent))),
            KINDS[span.operation],
            span.attributes,
            start_time=span.start_ns,
        )
        if span.error is not None:
            made.set_attribute("error.type", type(span.error).__name__)
            made.set_status(Status(StatusCode.ERROR, span.error.text))
        made.end(span.end_ns)
        context = made.get_span_context()
        sampled = context.trace_flags.sampled
        return TraceContext(context.trace_id, context.span_id, sampled, span.parent.state)


def _remote(parent: TraceContext) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT)
    state = TraceState.from_header([parent.state]) if parent.state else None
    return SpanContext(parent.trace_id, parent.span_id, True, flags, state)
