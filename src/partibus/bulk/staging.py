"""Staging and publishing batches over the bulk path.

Owns how a chunk is added to a stage and the actions on stages. All stages of a writer are in one
fragment of the entity that it names, its home, which the writer's name selects; so one record
publishes them. A row is validated here as its destination would, and refused individually; a chunk
that cannot be stored fails as a whole and is sent again under its number. Runs on the event loop;
rights are checked before.
"""

from collections.abc import Sequence

from partibus.bulk import requests as asked
from partibus.bulk.answers import Answer
from partibus.bulk.putting import Refusals, stored_form
from partibus.domain.address import parse_address
from partibus.domain.errors import BusError, StoreUnavailable
from partibus.domain.partition_key import fragment_index
from partibus.fragment.handle import LocalFragment
from partibus.fragment.message import NewMessage
from partibus.fragment.stages import commands as stages
from partibus.gateway.namespace import Entity, Namespace, require_sendable


class StagedAnswer(Answer[None]):
    """The chunk is durable."""

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.put(None)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.failed(error)


class PublishedAnswer(Answer[tuple[int, bool]]):
    """A batch is published, now or by an earlier request."""

    def published(self, count: int, is_repeated: bool) -> None:
        self.put((count, is_repeated))


class StagingService:
    """Stages of the writers whose home is in this process."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def _entity(self, path: str) -> Entity:
        return self._namespace.resolve(parse_address(path))

    def _home(self, path: str, writer: str) -> LocalFragment:
        fragments = self._entity(path).fragments
        fragment = fragments[fragment_index(writer, len(fragments))]
        local = fragment.local
        if local is None:
            raise StoreUnavailable(
                f"Fragment {fragment.index} of '{path}', with the stages of '{writer}', is not "
                "served here; look up where it is."
            )
        return local

    # --- rows -----------------------------------------------------------------------------

    async def stage(
        self, request: asked.StagedPutRequest, chunk: int, payloads: Sequence[bytes]
    ) -> Refusals:
        """Add a chunk to a stage; returns the rows that are not valid messages, and why."""
        path = request.target or request.entity
        target = self._entity(path)
        require_sendable(target, parse_address(path))
        refusals: Refusals = {}
        messages: list[NewMessage] = []
        for row, payload in enumerate(payloads):
            try:
                messages.append(stored_form(target, payload))
            except BusError as error:
                refusals[row] = error
        size = sum([len(message.body) for message in messages])
        answer = StagedAnswer()
        who = (request.writer, request.epoch, request.stage)
        command = stages.StageMessages(answer, *who, target.record.path, chunk, messages, [0], size)
        self._home(request.entity, request.writer).submit(command)
        await answer.value
        return refusals

    # --- actions --------------------------------------------------------------------------

    async def publish(self, request: asked.PublishRequest) -> dict[str, object]:
        """Publish a batch, once."""
        answer = PublishedAnswer()
        batch = (request.writer, request.series, request.epoch, request.batch)
        command = stages.PublishStages(answer, *batch, request.stages)
        self._home(request.entity, request.writer).submit(command)
        count, is_repeated = await answer.value
        return {"published": count, "repeated": is_repeated}

    async def drop(self, request: asked.DropStagesRequest) -> dict[str, object]:
        """Drop what was staged."""
        answer = Answer[int]()
        what = (request.writer, request.epoch, request.stages, request.forget)
        command = stages.DropStages(answer, *what)
        self._home(request.entity, request.writer).submit(command)
        return {"dropped": await answer.value}

    async def writer(self, request: asked.WriterRequest) -> dict[str, object]:
        """The state of a writer."""
        answer = Answer[list[stages.WriterSummary]]()
        self._home(request.entity, request.writer).submit(stages.ListWriters(answer))
        found = [one for one in await answer.value if one.name == request.writer]
        return {"writer": writer_fields(found[0]) if found else None}


def writer_fields(writer: stages.WriterSummary) -> dict[str, object]:
    """A writer as it is reported."""
    return {
        "writer": writer.name,
        "epoch": writer.epoch,
        "series": writer.series,
        "batch": writer.batch if writer.series else None,
        "used_ms": writer.used_ms,
        "leaving": writer.leaving,
        "stages": [
            {
                "stage": stage.name,
                "epoch": stage.epoch,
                "target": stage.path,
                "messages": stage.count,
                "bytes": stage.byte_count,
                "touched_ms": stage.touched_ms,
            }
            for stage in writer.stages
        ],
    }
