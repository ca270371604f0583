"""Answers of fragments as futures: the loop's side of a question.

Owns the ports that a command of the bulk path names. Every answer of a fragment resolves a
future, every error fails it; there is nothing else to them.
"""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from partibus.domain.errors import BusError
from partibus.fragment.claims.commands import ClaimSummary
from partibus.fragment.cursors.commands import CursorSummary, RangePlan
from partibus.fragment.message import Held

Value = TypeVar("Value")
Messages = tuple[Sequence[Held], Sequence[bytes]]


class Answer(Generic[Value]):
    """One answer to come; `await answer.value`."""

    def __init__(self) -> None:
        self.value: asyncio.Future[Value] = asyncio.get_running_loop().create_future()

    def put(self, value: Value) -> None:
        """Set the answer; the caller may have gone."""
        if not self.value.done():
            self.value.set_result(value)

    def failed(self, error: BusError) -> None:
        """Fail with an error."""
        if not self.value.done():
            self.value.set_exception(error)


class ClaimAnswer(Answer[ClaimSummary]):
    """A claim stands."""

    def claimed(self, summary: ClaimSummary) -> None:
        self.put(summary)


class ClaimsAnswer(Answer[list[ClaimSummary]]):
    """All claims."""

    def claims_listed(self, summaries: list[ClaimSummary]) -> None:
        self.put(summaries)


class CountAnswer(Answer[int]):
    """A number of messages."""

    def done(self, count: int) -> None:
        self.put(count)


class CursorAnswer(Answer[CursorSummary]):
    """A cursor stands."""

    def placed(self, cursor: CursorSummary) -> None:
        self.put(cursor)


class CursorsAnswer(Answer[list[CursorSummary]]):
    """All cursors."""

    def cursors_listed(self, cursors: list[CursorSummary]) -> None:
        self.put(cursors)


class PlanAnswer(Answer[RangePlan]):
    """How far a read comes."""

    def planned(self, plan: RangePlan) -> None:
        self.put(plan)


class NumberAnswer(Answer[int]):
    """The number of a message."""

    def located(self, sequence: int) -> None:
        self.put(sequence)


class MessagesAnswer(Answer[Messages]):
    """Messages with their bodies."""

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.put((messages, bodies))
