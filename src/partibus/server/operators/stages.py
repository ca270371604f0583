"""Who writes to an entity in stages: its writers, over all workers.

Owns the answer of this worker about the writers whose home is here, and the answer of the whole
server; what a writer has staged is dropped by the command that it uses itself. Called by the HTTP
side (`ops.admin_stages`) through the administration.
"""

from typing import Any, Final

from partibus.bulk.staging import writer_fields
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.errors import EntityNotFound
from partibus.fragment.handle import LocalFragment
from partibus.fragment.stages.commands import DropStages
from partibus.gateway.namespace import Namespace
from partibus.server.operators.fragments import FragmentDesk, Unheard, out_of_reach

STAGES: Final = "stages"
DROP: Final = "stages.drop"


class StageDesk:
    """Writers and their stages, for operators."""

    def __init__(self, namespace: Namespace, control: ControlHub) -> None:
        self._control = control
        self._desk = FragmentDesk(namespace, control, STAGES, _state_of)
        control.register(DROP, self._drop)

    # --- this worker ----------------------------------------------------------------------

    def _drop(self, payload: Payload) -> Payload:
        for fragment in self._desk.local(payload["entity"]):
            stages = fragment.machine.state.stages
            if stages is not None and payload["writer"] in stages.writers:
                forget = bool(payload["forget"])
                fragment.submit(DropStages(Unheard(), payload["writer"], None, None, forget))
        return {}

    # --- all workers ----------------------------------------------------------------------

    async def stages(self, name: str) -> Payload:
        """Every writer with what it has staged."""
        path, fragments = await self._desk.ask(name)
        writers = [
            {"fragment": int(index), **writer}
            for index, told in fragments.items()
            for writer in told["writers"]
        ]
        return {"name": path, "writers": sorted(writers, key=lambda one: str(one["writer"]))}

    async def drop(self, name: str, writer: str, forget: bool) -> Payload:
        """Drop what a writer has staged; the batch that it is at is over."""
        path, fragments = await self._desk.ask(name)
        found = _found(fragments, writer)
        if found is None:
            raise EntityNotFound(f"'{path}' has no writer '{writer}'.")
        index, before = found
        if not fragments[index]["available"]:
            raise out_of_reach(path, [index])
        request = {"entity": path, "writer": writer, "forget": forget}
        await self._control.ask_all(DROP, request)
        await self._desk.until(path, lambda told: not _is_held(told, writer, forget))
        count = sum(stage["messages"] for stage in before["stages"])
        return {"name": path, "writer": writer, "dropped": count}


def _found(fragments: dict[str, Payload], writer: str) -> tuple[str, dict[str, Any]] | None:
    for index, told in fragments.items():
        for one in told["writers"]:
            if one["writer"] == writer:
                return index, one
    return None


def _is_held(told: Payload, writer: str, forget: bool) -> bool:
    """Whether a fragment still has what was to be dropped."""
    return any(one["writer"] == writer and (forget or one["stages"]) for one in told["writers"])


def _state_of(fragment: LocalFragment) -> Payload:
    stages = fragment.machine.state.stages
    writers = [] if stages is None else stages.summaries()
    return {
        "available": fragment.is_available,
        "writers": [writer_fields(writer) for writer in writers],
    }
