"""What operators are told about an entity, and change about it, fragment by fragment and over all
workers.

Owns the question to every worker, the answers in the order of the fragments, and the wait until
a change is seen in all of them. What is asked and changed is said by the desks that stand on it
(`pipelines`, `stages`); it knows no command.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.address import parse_address
from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Namespace

POLL_S: Final = 0.02
CHANGE_S_MAX: Final = 10.0


class Unheard:
    """The answer to a command is looked up, not waited for."""

    def done(self, count: int) -> None:
        pass

    def failed(self, error: BusError) -> None:
        pass


class FragmentDesk:
    """One question about the fragments of an entity."""

    def __init__(
        self,
        namespace: Namespace,
        control: ControlHub,
        question: str,
        state_of: Callable[[LocalFragment], Payload],
    ) -> None:
        self._namespace = namespace
        self._control = control
        self._question = question
        self._state_of = state_of
        control.register(question, self._told)

    def local(self, path: str) -> list[LocalFragment]:
        """The fragments of an entity that are served here."""
        fragments = self._namespace.resolve(parse_address(path)).fragments
        return [fragment for fragment in fragments if isinstance(fragment, LocalFragment)]

    def _told(self, payload: Payload) -> Payload:
        """What the fragments here know, by index."""
        return {str(f.index): self._state_of(f) for f in self.local(payload["entity"])}

    async def ask(self, name: str) -> tuple[str, dict[str, Payload]]:
        """The canonical path of an entity, and what each fragment that is served says."""
        path = self._namespace.resolve(parse_address(name)).record.path
        answers = await self._control.ask_all(self._question, {"entity": path})
        fragments = {index: told for answer in answers.values() for index, told in answer.items()}
        return path, {index: fragments[index] for index in sorted(fragments, key=int)}

    async def until(self, path: str, is_done: Callable[[Payload], bool]) -> None:
        """Wait until every fragment that answers says so; one whose store is down does not."""
        deadline = asyncio.get_running_loop().time() + CHANGE_S_MAX
        while True:
            _, fragments = await self.ask(path)
            open_ = [index for index, told in fragments.items() if not is_done(told)]
            down = [index for index in open_ if not fragments[index]["available"]]
            if not open_:
                return
            if down or asyncio.get_running_loop().time() > deadline:
                raise out_of_reach(path, down or open_)
            await asyncio.sleep(POLL_S)


def out_of_reach(path: str, indexes: list[str]) -> StoreUnavailable:
    """Some fragments could not do what was asked."""
    named = f"Fragment {indexes[0]}" if len(indexes) == 1 else f"Fragments {', '.join(indexes)}"
    return StoreUnavailable(
        f"{named} of '{path}' could not do it: the store is down or slow. "
        "The others have; try again."
    )
