"""Questions and changes of operators about an entity, fragment by fragment and over all workers.

Owns the question to every worker, the answers in the order of the fragments, and the wait for the
answer of each fragment's own command. The services that use it (`pipelines`, `stages`) decide which
command makes a change.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partibus.bulk.answers import Answer
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.address import parse_address
from partibus.domain.errors import EntityNotFound, StoreUnavailable
from partibus.fragment.commands import Command
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Namespace

CHANGE_S_MAX: Final = 4.0
"""How long a worker waits for its stores; the asking worker waits for 5 seconds."""

CommandOf = Callable[[Payload, Answer[int]], Command]
"""The command that makes a change; a fragment where there is nothing to change answers
EntityNotFound."""


@dataclass(eq=False)
class FragmentQuestions:
    """One question about the fragments of an entity."""

    namespace: Namespace
    control: ControlHub
    question: str
    state_of: Callable[[LocalFragment], Payload]

    def __post_init__(self) -> None:
        self.control.register(self.question, self._answer)

    def local(self, path: str) -> list[LocalFragment]:
        """The fragments of an entity that are served here."""
        fragments = self.namespace.resolve(parse_address(path)).fragments
        return [local for fragment in fragments if (local := fragment.local) is not None]

    def _answer(self, payload: Payload) -> Payload:
        """The answers of the fragments here, by index."""
        return {str(f.index): self.state_of(f) for f in self.local(payload["entity"])}

    async def ask(self, name: str) -> tuple[str, dict[str, Payload]]:
        """The canonical path of an entity, and the answer of each fragment that is served."""
        path = self.namespace.resolve(parse_address(name)).record.path
        answers = await self.control.ask_all(self.question, {"entity": path})
        fragments = {index: found for answer in answers.values() for index, found in answer.items()}
        return path, {index: fragments[index] for index in sorted(fragments, key=int)}

    def register_change(self, name: str, command_of: CommandOf) -> None:
        """Make a change at the fragments of this worker whenever any worker requests it."""

        async def change(payload: Payload) -> Payload:
            return await self._change_local(payload, command_of)

        self.control.register(name, change)

    async def _change_local(self, payload: Payload, command_of: CommandOf) -> Payload:
        """Submit the command to every fragment here, and wait for all of their answers."""
        answers: dict[str, Answer[int]] = {}
        for fragment in self.local(payload["entity"]):
            answer = answers[str(fragment.index)] = Answer[int]()
            fragment.submit(command_of(payload, answer))
        if answers:
            await asyncio.wait([one.value for one in answers.values()], timeout=CHANGE_S_MAX)
        failed: list[str] = []
        missing: list[str] = []
        counts: dict[str, int] = {}
        for index, answer in answers.items():
            error = answer.value.exception() if answer.value.done() else StoreUnavailable()
            if isinstance(error, StoreUnavailable):
                failed.append(index)
            elif isinstance(error, EntityNotFound):
                missing.append(error.text)
            else:
                counts[index] = answer.value.result()
        return {"counts": counts, "failed": failed, "missing": missing}

    async def change(self, name: str, question: str, payload: Payload) -> tuple[str, int]:
        """Make a change at every fragment of an entity; returns its path and the sum of the counts.

        Raises StoreUnavailable with the fragments that did not answer, and EntityNotFound when no
        fragment had anything to change."""
        path = self.namespace.resolve(parse_address(name)).record.path
        answers = await self.control.ask_all(question, {"entity": path, **payload})
        failed = [index for answer in answers.values() for index in answer["failed"]]
        if failed:
            raise out_of_reach(path, sorted(failed, key=int))
        counts = [count for answer in answers.values() for count in answer["counts"].values()]
        if not counts:
            # A node of an earlier build does not say what is missing.
            missing = [text for answer in answers.values() for text in answer.get("missing", ())]
            raise EntityNotFound(missing[0]) if missing else StoreUnavailable()
        return path, sum(counts)


def out_of_reach(path: str, indexes: list[str]) -> StoreUnavailable:
    """The error for fragments that did not answer."""
    named = f"fragment {indexes[0]}" if len(indexes) == 1 else f"fragments {', '.join(indexes)}"
    return StoreUnavailable(
        f"Not applied to {named} of '{path}': the store is down or slow. "
        "Applied to the others; try again."
    )
