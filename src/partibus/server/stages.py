"""Who writes to an entity in stages: its writers, over all workers.

Owns the answer of this worker about the writers whose home is here, and the answer of the whole
server; what a writer has staged is dropped by the command that it uses itself. Called by the HTTP
side (`ops.admin_stages`) through the administration.
"""

import asyncio
from typing import Any, Final

from partibus.bulk.staging import writer_fields
from partibus.domain.address import parse_address
from partibus.domain.errors import BusError, EntityNotFound, StoreUnavailable
from partibus.fragment.handle import LocalFragment
from partibus.fragment.stage_commands import DropStages
from partibus.gateway.namespace import Namespace
from partibus.server.control_hub import ControlHub, Payload

STAGES: Final = "stages"
DROP: Final = "stages.drop"
POLL_S: Final = 0.02
CHANGE_S_MAX: Final = 10.0


class _Unheard:
    """The answer is looked up, not waited for."""

    def done(self, count: int) -> None:
        pass

    def failed(self, error: BusError) -> None:
        pass


class StageDesk:
    """Writers and their stages, for operators."""

    def __init__(self, namespace: Namespace, control: ControlHub) -> None:
        self._namespace = namespace
        self._control = control
        control.register(STAGES, self._told)
        control.register(DROP, self._drop)

    # --- this worker ----------------------------------------------------------------------

    def _local(self, path: str) -> list[LocalFragment]:
        fragments = self._namespace.resolve(parse_address(path)).fragments
        return [fragment for fragment in fragments if isinstance(fragment, LocalFragment)]

    def _told(self, payload: Payload) -> Payload:
        """What the fragments here know, by index."""
        return {str(f.index): _state_of(f) for f in self._local(payload["entity"])}

    def _drop(self, payload: Payload) -> Payload:
        for fragment in self._local(payload["entity"]):
            stages = fragment.machine.state.stages
            if stages is not None and payload["writer"] in stages.writers:
                forget = bool(payload["forget"])
                fragment.submit(DropStages(_Unheard(), payload["writer"], None, None, forget))
        return {}

    # --- all workers ----------------------------------------------------------------------

    async def stages(self, name: str) -> Payload:
        """Every writer with what it has staged."""
        path, fragments = await self._ask(name)
        writers = [
            {"fragment": int(index), **writer}
            for index, told in fragments.items()
            for writer in told["writers"]
        ]
        return {"name": path, "writers": sorted(writers, key=lambda one: str(one["writer"]))}

    async def drop(self, name: str, writer: str, forget: bool) -> Payload:
        """Drop what a writer has staged; the batch that it is at is over."""
        path, fragments = await self._ask(name)
        found = _found(fragments, writer)
        if found is None:
            raise EntityNotFound(f"'{path}' has no writer '{writer}'.")
        index, before = found
        if not fragments[index]["available"]:
            raise _down(path, index)
        request = {"entity": path, "writer": writer, "forget": forget}
        await self._control.ask_all(DROP, request)
        await self._until(path, writer, forget)
        count = sum(stage["messages"] for stage in before["stages"])
        return {"name": path, "writer": writer, "dropped": count}

    async def _ask(self, name: str) -> tuple[str, dict[str, Payload]]:
        path = self._namespace.resolve(parse_address(name)).record.path
        answers = await self._control.ask_all(STAGES, {"entity": path})
        fragments = {index: told for answer in answers.values() for index, told in answer.items()}
        return path, {index: fragments[index] for index in sorted(fragments, key=int)}

    async def _until(self, path: str, writer: str, forget: bool) -> None:
        deadline = asyncio.get_running_loop().time() + CHANGE_S_MAX
        while True:
            _, fragments = await self._ask(path)
            found = _found(fragments, writer)
            if found is None or not (forget or found[1]["stages"]):
                return
            index = found[0]
            if not fragments[index]["available"] or asyncio.get_running_loop().time() > deadline:
                raise _down(path, index)
            await asyncio.sleep(POLL_S)


def _found(fragments: dict[str, Payload], writer: str) -> tuple[str, dict[str, Any]] | None:
    for index, told in fragments.items():
        for one in told["writers"]:
            if one["writer"] == writer:
                return index, one
    return None


def _down(path: str, index: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Fragment {index} of '{path}', where the stages are, could not do it: its store is down "
        "or slow. Try again."
    )


def _state_of(fragment: LocalFragment) -> Payload:
    stages = fragment.machine.state.stages
    writers = [] if stages is None else stages.summaries()
    return {
        "available": fragment.is_available,
        "writers": [writer_fields(writer) for writer in writers],
    }
