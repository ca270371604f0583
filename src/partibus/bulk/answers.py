"""Answers of fragments as futures.

Owns the ports that the commands of operators and of the bulk path name. The answer of a fragment
resolves the future, an error fails it.
"""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from partibus.domain.errors import BusError
from partibus.fragment.message import Held

Value = TypeVar("Value")
Messages = tuple[Sequence[Held], Sequence[bytes]]


class Answer(Generic[Value]):
    """A future answer; `await answer.value`."""

    def __init__(self) -> None:
        self.value: asyncio.Future[Value] = asyncio.get_running_loop().create_future()

    def put(self, value: Value) -> None:
        """Set the answer; ignored if the caller has gone."""
        if not self.value.done():
            self.value.set_result(value)

    def failed(self, error: BusError) -> None:
        """Fail with an error."""
        if not self.value.done():
            self.value.set_exception(error)

    # Most ports have one method for the value besides `failed`.
    claimed = put
    claims_listed = put
    cursors_listed = put
    done = put
    located = put
    placed = put
    planned = put
    writers_listed = put


class MessagesAnswer(Answer[Messages]):
    """Messages with their bodies."""

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.put((messages, bodies))
