"""Administrative questions to the workers of this server, wherever they run.

Owns the table of questions that this process answers and the one way to put a question to any
worker or to all. A question is a name and a JSON object, and so is its answer. With a single
process a question is a call; with several the far workers are asked over the peer channel. It must
never carry messages of clients or interpret a question: the parts that can answer one register
themselves, the admin endpoint and the faults ask.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from partibus.domain.errors import BusError, NotImplementedHere
from partibus.domain.observing.cost import OBSERVING

Payload = dict[str, Any]
"""A JSON object."""
Reply = Payload | Awaitable[Payload]
Handler = Callable[[Payload], Reply]
"""Answers at once, or later when the answer depends on a store."""


class FarWorkers(Protocol):
    """The other workers of this server."""

    @property
    def numbers(self) -> Sequence[int]:
        """Their numbers, whether or not they answer now."""
        ...

    def ask(self, worker: int, name: str, payload: Payload) -> Awaitable[Payload]:
        """Ask one of them; a BusError when it does not answer."""
        ...


class ControlHub:
    """Questions in, answers out."""

    def __init__(self, worker: int = 0) -> None:
        self.worker = worker
        """The number of the worker that runs in this process."""
        self._handlers: dict[str, Handler] = {}
        self._far: FarWorkers | None = None

    def register(self, name: str, handler: Handler) -> None:
        """Answer the question `name` in this process from now on."""
        assert name not in self._handlers, f"two handlers for {name}"
        self._handlers[name] = handler

    def reach(self, far: FarWorkers) -> None:
        """There are other workers, and this is how to reach them."""
        self._far = far

    @property
    def workers(self) -> list[int]:
        """The numbers of all workers, including this one."""
        far = list(self._far.numbers) if self._far is not None else []
        return sorted([self.worker, *far])

    def answer(self, name: str, payload: Payload) -> Reply:
        """The answer of this process to a question."""
        handler = self._handlers.get(name)
        if handler is None:
            raise NotImplementedHere(f"This server does not support '{name}'.")
        begun_s = OBSERVING.begin()
        try:
            return handler(payload)
        finally:
            OBSERVING.end(begun_s)

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        """Ask one worker; raises a BusError when it cannot answer."""
        if worker == self.worker:
            answer = self.answer(name, payload)
            return answer if isinstance(answer, dict) else await answer
        if self._far is None or worker not in self._far.numbers:
            raise NotImplementedHere(f"There is no worker {worker}.")
        return await self._far.ask(worker, name, payload)

    async def ask_all(self, name: str, payload: Payload) -> dict[int, Payload]:
        """Ask all workers at once; those that do not answer are left out."""
        if self._far is None:  # no task for a plain call
            try:
                return {self.worker: await self.ask(self.worker, name, payload)}
            except BusError:
                return {}
        return await self.ask_each(self.workers, name, payload)

    async def ask_each(
        self, workers: Sequence[int], name: str, payload: Payload
    ) -> dict[int, Payload]:
        """Ask some workers at once; those that do not answer are left out."""
        answers = await asyncio.gather(
            *(self.ask(worker, name, payload) for worker in workers), return_exceptions=True
        )
        found: dict[int, Payload] = {}
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, dict):
                found[worker] = answer
            elif not isinstance(answer, BusError):
                raise answer
        return found
