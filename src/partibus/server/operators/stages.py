"""Who writes to an entity in stages: its writers, over all workers.

Owns the answer of this worker about the writers in its fragments, and the answer of the whole
server; what a writer has staged is dropped by the command that the writer itself uses. Called by
the HTTP side (`ops.admin.pipelines`) through the administration.
"""

from typing import Final

from partibus.bulk.answers import Answer
from partibus.bulk.staging import writer_fields
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.fragment.handle import LocalFragment
from partibus.fragment.stages.commands import DropStages
from partibus.gateway.namespace import Namespace
from partibus.server.operators.fragments import FragmentQuestions

STAGES: Final = "stages"
DROP: Final = "stages.drop"


class StageService:
    """Writers and their stages, for operators."""

    def __init__(self, namespace: Namespace, control: ControlHub) -> None:
        self._fragments = FragmentQuestions(namespace, control, STAGES, _state_of)
        self._fragments.register_change(DROP, _drop)

    async def stages(self, name: str) -> Payload:
        """Every writer with what it has staged."""
        path, fragments = await self._fragments.ask(name)
        writers = [
            {"fragment": int(index), **writer}
            for index, reported in fragments.items()
            for writer in reported["writers"]
        ]
        return {"name": path, "writers": sorted(writers, key=lambda one: str(one["writer"]))}

    async def drop(self, name: str, writer: str, forget: bool) -> Payload:
        """Drop what a writer has staged; its current batch is over."""
        request = {"writer": writer, "forget": forget}
        path, count = await self._fragments.change(name, DROP, request)
        return {"name": path, "writer": writer, "dropped": count}


def _drop(payload: Payload, answer: Answer[int]) -> DropStages:
    return DropStages(answer, payload["writer"], None, None, bool(payload["forget"]))


def _state_of(fragment: LocalFragment) -> Payload:
    stages = fragment.machine.state.stages
    writers = [] if stages is None else stages.summaries()
    return {"writers": [writer_fields(writer) for writer in writers]}
