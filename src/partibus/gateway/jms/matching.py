"""Matching a selector: whether a stored message is one that a consumer of a queue wants.

Owns the compiled filter of one link. A message whose property is of another type than the selector
compares it with is not selected (JMS-5).
"""

from partibus.amqp.codec.decode import DecodeError
from partibus.domain.errors import ArgumentError
from partibus.message.view import StoredView
from partibus.rules.errors import EvaluationError, FilterError
from partibus.rules.sql_filter import SqlFilter


class Selector:
    """The selector of one link."""

    __slots__ = ("_filter",)

    def __init__(self, expression: str) -> None:
        try:
            self._filter = SqlFilter(expression, {})
        except FilterError as error:
            raise ArgumentError(f"The selector is not valid: {error}") from error

    def selects(self, body: bytes, sequence: int, enqueued_ms: int) -> bool:
        """Whether it selects a message."""
        try:
            return self._filter.matches(StoredView(body, sequence, enqueued_ms)) is True
        except (DecodeError, EvaluationError):
            return False
