"""One request, several fragments: answers are collected and returned together.

Owns the waiting. Each fragment answers on its own; when the last has answered, the request
is finished with the results in the order in which the fragments were asked, or failed with
the first error.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from partibus.domain.errors import BusError
from partibus.fragment.message import Held

Result = TypeVar("Result")
Messages = tuple[Sequence[Held], Sequence[bytes]]
Stored = tuple[int, Sequence[int]]
"""The first number, and the indexes of dropped duplicates."""


class FanOut(Generic[Result]):
    """Answers of several fragments to one request."""

    __slots__ = ("_error", "_fail", "_finish", "_missing", "_results")

    def __init__(
        self,
        count: int,
        finish: Callable[[list[Result | None]], None],
        fail: Callable[[BusError, list[Result | None]], None],
    ) -> None:
        self._results: list[Result | None] = [None] * count
        self._missing = count
        self._finish = finish
        self._fail = fail
        self._error: BusError | None = None

    @property
    def count(self) -> int:
        """How many fragments were asked."""
        return len(self._results)

    @property
    def is_over(self) -> bool:
        """Whether the request has been answered."""
        return self._missing == 0

    def end(self, results: list[Result | None]) -> None:
        """Return these results now, and wait for no other fragment."""
        self._missing = 0
        self._finish(results)

    def put(self, part: int, result: Result) -> None:
        """One fragment has answered."""
        self._results[part] = result
        self._count_down()

    def put_error(self, part: int, error: BusError) -> None:
        """One fragment failed."""
        if self._error is None:
            self._error = error
        self._count_down()

    def _count_down(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        if self._error is None:
            self._finish(self._results)
        else:
            self._fail(self._error, self._results)


@dataclass(eq=False, slots=True)
class FragmentPort(Generic[Result]):
    """The port of one of the fragments that were asked."""

    fan_out: FanOut[Result]
    part: int

    def put(self, result: Result) -> None:
        """The fragment has answered."""
        self.fan_out.put(self.part, result)

    def failed(self, error: BusError) -> None:
        """The fragment failed."""
        self.fan_out.put_error(self.part, error)


class MessagesPart(FragmentPort[Messages]):
    """The port of one fragment that was asked for messages."""

    __slots__ = ()

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.put((messages, bodies))


class CountPart(FragmentPort[int]):
    """The port for a fragment's count of affected messages."""

    __slots__ = ()

    def done(self, count: int) -> None:
        self.put(count)


class SendPart(FragmentPort[Stored]):
    """The port for the sequence numbers that a fragment assigned."""

    __slots__ = ()

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.put((first_sequence, dropped))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.failed(error)


class RenewPart(FragmentPort[Sequence[int]]):
    """The port of one fragment that renews locks."""

    __slots__ = ()

    def renewed(self, until_ms: Sequence[int]) -> None:
        self.put(until_ms)


class SettlePart(FragmentPort[int]):
    """The port of one fragment that settles locks; returns how many were lost."""

    __slots__ = ()

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        if error is not None:
            self.failed(error)
        else:
            self.put(len(lost))
