"""Which messages of a read are wanted, decided on the server.

Owns the filter of one read: an SQL filter in the language of subscription rules, sessions, ids and
a time range. What does not match never leaves the bus. Messages are matched as a peek shows them,
with their overlays (for example a dead-letter reason). Called by the Flight server for reads with a
filter.
"""

from collections.abc import Sequence
from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.bulk.answers import Messages
from partibus.bulk.requests import Choice
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import calendar_moment
from partibus.domain.sequence import client_sequence
from partibus.fragment.message import Held
from partibus.message.overlay import lay_over
from partibus.message.view import StoredView
from partibus.rules.errors import EvaluationError
from partibus.rules.sql_filter import SqlFilter

FILTER_CHARS_MAX: Final = 16_384


class HeldView(StoredView):
    """A message in a fragment as filters see it."""

    __slots__ = ("_held",)

    def __init__(self, stored: bytes, held: Held, sequence: int) -> None:
        super().__init__(stored, sequence, held.enqueued_ms)
        self._held = held

    @property
    def application(self) -> dict[str, object]:
        """The application properties, including changes since."""
        if self._application is None:
            found = super().application
            if self._held.overlay is not None:
                lay_over(found, self._held.overlay)
        return super().application

    def _of_broker(self, name: str) -> object:
        if name == "deliverycount":
            return self._held.delivery_count
        if name == "expiresatutc" and self._held.expires_ms:
            return calendar_moment(self._held.expires_ms)
        return super()._of_broker(name)


class MessageFilter:
    """The filter of one read."""

    def __init__(self, choice: Choice, index: int) -> None:
        self._index = index
        self._filter = compile_filter(choice.filter) if choice.filter else None
        self._sessions = None if choice.session_ids is None else frozenset(choice.session_ids)
        self._ids = None if choice.message_ids is None else frozenset(choice.message_ids)
        self._from_ms, self._to_ms = choice.enqueued_from_ms, choice.enqueued_to_ms

    def sift(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> Messages:
        """The matching messages, in order."""
        kept: list[Held] = []
        kept_bodies: list[bytes] = []
        for held, body in zip(messages, bodies, strict=True):
            if self._passes(held, body):
                kept.append(held)
                kept_bodies.append(body)
        return kept, kept_bodies

    def _passes(self, held: Held, body: bytes) -> bool:
        if not self._from_ms <= held.enqueued_ms < self._to_ms:
            return False
        view = HeldView(body, held, client_sequence(self._index, held.sequence))
        try:
            if self._sessions is not None and view.system("sessionid") not in self._sessions:
                return False
            if self._ids is not None and view.system("messageid") not in self._ids:
                return False
            return self._filter is None or self._filter.matches(view) is True
        except (EvaluationError, DecodeError):
            # A filter that cannot be evaluated for a message does not match it (FLT-9).
            return False


def compile_filter(text: str) -> SqlFilter:
    """A compiled filter; errors name the position in its text."""
    if len(text) > FILTER_CHARS_MAX:
        raise ArgumentError(
            f"The filter has {len(text)} characters; the maximum is {FILTER_CHARS_MAX}."
        )
    return SqlFilter(text, {})
