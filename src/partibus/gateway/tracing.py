"""The spans of traced messages: send, store, deliver, settle and forward.

Owns what is a span of the server, when it begins and ends, and what is recorded with it, by the
messaging conventions of OpenTelemetry. A span is recorded when it has ended, so nothing is held for
messages that wait. Only messages whose sender sampled its trace have spans. The recorder is in
`server.telemetry`; without one, links and couriers have None and do nothing. A message that may be
settled by its token alone is remembered by that token while there is room.
"""

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from partibus.domain.address import parse_address
from partibus.domain.errors import BusError
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Held, NewMessage
from partibus.fragment.ports import SendPort
from partibus.message.trace_context import TraceContext, TracedMessage, traced_message

LOCKS_MAX: Final = 10_000
"""Traced locked messages that are remembered by their tokens; the oldest are forgotten."""
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


class Operation(enum.Enum):
    """What the server did with a message; the values are messaging.operation.type."""

    SEND = "send"
    STORE = "store"
    DELIVER = "deliver"
    SETTLE = "settle"
    FORWARD = "forward"


DISPOSITIONS: Final = {outcome: outcome.name.lower() for outcome in Outcome}
"""As the conventions name them, for example `dead_letter`."""


@dataclass(slots=True, frozen=True, kw_only=True)
class EndedSpan:
    """One ended span."""

    operation: Operation
    name: str
    parent: TraceContext
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int]
    error: BusError | None = None


class SpanRecorder(Protocol):
    """Where spans go; it must not block."""

    def record(self, span: EndedSpan) -> TraceContext:
        """Accept a span; returns the context that is the parent of its children."""
        ...


class Tracing:
    """Makes the spans of one process."""

    def __init__(self, recorder: SpanRecorder, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._recorder = recorder
        self.now_ns = now_ns
        self._locks: dict[tuple[int, int], TracedMessage] = {}
        """By fragment and token, for settlements outside of the receiving link."""

    def sends(self, path: str, name: str = "send") -> "SendTraces":
        """The traces of what one sender submits to one fragment."""
        return SendTraces(self, path, name)

    def remember(self, fragment_id: int, traced: Mapping[int, TracedMessage]) -> None:
        """Remember messages that may be settled by their tokens alone."""
        for token, message in traced.items():
            self._locks[fragment_id, token] = message
        while len(self._locks) > LOCKS_MAX:
            del self._locks[next(iter(self._locks))]

    def settling(self, fragment_id: int, tokens: Sequence[int]) -> list[TracedMessage]:
        """The traced ones among locks that are being settled; they are then forgotten."""
        if not self._locks:
            return []
        found = [self._locks.pop((fragment_id, token), None) for token in tokens]
        return [message for message in found if message is not None]

    def delivered(
        self,
        path: str,
        fragment: int,
        messages: Sequence[Held],
        bodies: Sequence[bytes],
        now_ms: int,
    ) -> dict[int, TracedMessage]:
        """Messages are delivered to a receiver; returns the traced ones by their lock's number.

        The span begins when the message was stored: it shows how long the message has waited.
        """
        traced: dict[int, TracedMessage] = {}
        end_ns = self.now_ns()
        for held, body in zip(messages, bodies, strict=False):
            message = traced_message(body)
            if message is None:
                continue
            traced[held.token] = message
            attributes: dict[str, str | int] = {
                "messaging.destination.partition.id": str(fragment),
                "messaging.servicebus.message.delivery_count": held.delivery_count + 1,
                "messaging.servicebus.message.enqueued_time": held.enqueued_ms // 1000,
            }
            start_ns = end_ns - max(0, now_ms - held.enqueued_ms) * NS_PER_MS
            self.record(Operation.DELIVER, "deliver", path, message, start_ns, end_ns, attributes)
        return traced

    def settled(
        self,
        path: str,
        messages: Sequence[TracedMessage],
        outcome: Outcome,
        elapsed_s: float,
        error: BusError | None,
    ) -> None:
        """A receiver's settlement was answered."""
        word = DISPOSITIONS[outcome]
        end_ns = self.now_ns()
        start_ns = end_ns - int(elapsed_s * NS_PER_S)
        for message in messages:
            attributes: dict[str, str | int] = {"messaging.servicebus.disposition_status": word}
            self.record(Operation.SETTLE, word, path, message, start_ns, end_ns, attributes, error)

    def settlement(
        self, path: str, messages: Sequence[TracedMessage], outcome: Outcome
    ) -> Callable[[BusError | None], None]:
        """A settlement begins; the returned callback is called when it has ended."""
        begun_ns = self.now_ns()

        def over(error: BusError | None) -> None:
            elapsed_s = (self.now_ns() - begun_ns) / NS_PER_S
            self.settled(path, messages, outcome, elapsed_s, error)

        return over

    def forwarded(
        self, origin: str, path: str, fragment: int, bodies: Sequence[bytes], start_ns: int
    ) -> None:
        """Messages of one entity are durable in another."""
        end_ns = self.now_ns()
        for body in bodies:
            message = traced_message(body)
            if message is not None:
                attributes: dict[str, str | int] = {
                    "messaging.destination.partition.id": str(fragment),
                    "partibus.forward.source": origin,
                }
                self.record(
                    Operation.FORWARD, "forward", path, message, start_ns, end_ns, attributes
                )

    def record(
        self,
        operation: Operation,
        name: str,
        path: str,
        message: TracedMessage,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, str | int],
        error: BusError | None = None,
        parent: TraceContext | None = None,
    ) -> TraceContext:
        """Record one span."""
        facts: dict[str, str | int] = {
            "messaging.system": "servicebus",
            "messaging.operation.type": operation.value,
            "messaging.operation.name": name,
            **_destination(path),
            **attributes,
        }
        if message.message_id:
            facts["messaging.message.id"] = message.message_id
        span = EndedSpan(
            operation=operation,
            name=f"{name} {path}",
            parent=message.context if parent is None else parent,
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=facts,
            error=error,
        )
        return self._recorder.record(span)


@dataclass(eq=False, slots=True)
class SendTraces:
    """Traced messages of one submission, from their arrival to the answer."""

    tracing: Tracing
    path: str
    name: str
    _messages: list[tuple[TracedMessage, int]] = field(init=False, default_factory=list)
    """Each with its time of arrival."""
    _attempts: list[tuple[int, int, int, BusError | None]] = field(init=False, default_factory=list)
    """The fragments that were tried: index, begin, end, and the error if it refused."""
    _fragment: int = field(init=False, default=0)
    _begun_ns: int = field(init=False, default=0)

    def add(self, messages: Sequence[NewMessage]) -> None:
        """Messages have arrived."""
        now_ns = self.tracing.now_ns()
        for message in messages:
            traced = traced_message(message.body)
            if traced is not None:
                self._messages.append((traced, now_ns))

    def storing(self, fragment: int) -> None:
        """They are submitted to a fragment."""
        self._fragment = fragment
        self._begun_ns = self.tracing.now_ns()

    def answered(self, error: BusError | None) -> None:
        """The fragment has stored them, or has not."""
        now_ns = self.tracing.now_ns()
        self._attempts.append((self._fragment, self._begun_ns, now_ns, error))

    def ended(self, error: BusError | None = None) -> None:
        """The sender has been answered."""
        end_ns = self.tracing.now_ns()
        for message, start_ns in self._messages:
            sent = self.tracing.record(
                Operation.SEND, self.name, self.path, message, start_ns, end_ns, {}, error
            )
            for fragment, begun_ns, over_ns, refusal in self._attempts:
                place: dict[str, str | int] = {"messaging.destination.partition.id": str(fragment)}
                self.tracing.record(
                    Operation.STORE,
                    "store",
                    self.path,
                    message,
                    begun_ns,
                    over_ns,
                    place,
                    refusal,
                    sent,
                )


@dataclass(eq=False, slots=True)
class TracedPort:
    """Notices the outcome of traced messages before the sender gets it."""

    port: SendPort
    traces: SendTraces

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """They are durable."""
        self.traces.answered(None)
        self.port.confirmed(requests, first_sequence, dropped)
        self.traces.ended()

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """They are not stored."""
        self.traces.answered(error)
        self.port.refused(requests, error)
        self.traces.ended(error)


def traced_port(
    tracing: Tracing | None,
    name: str,
    path: str,
    fragment: int,
    messages: Sequence[NewMessage],
    port: SendPort,
) -> SendPort:
    """The port for messages to one fragment; the port itself when nothing is traced."""
    if tracing is None:
        return port
    traces = tracing.sends(path, name)
    traces.add(messages)
    traces.storing(fragment)
    return TracedPort(port, traces)


def _destination(path: str) -> dict[str, str | int]:
    """Where a message went or comes from, as the conventions name it."""
    address = parse_address(path)
    if address.subscription is None:
        return {"messaging.destination.name": path}
    return {
        "messaging.destination.name": address.entity,
        "messaging.destination.subscription.name": address.subscription,
    }
