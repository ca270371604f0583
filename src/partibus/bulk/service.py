"""Bulk requests to the fragments of this process.

Owns the answers to every action and the reading of ranges, over the fragments of an entity that run
in this process; those of another worker are addressed there. Runs on the event loop and waits only
for fragments. It must never use Arrow or Flight; rights are checked before.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from partibus.bulk import requests as asked
from partibus.bulk.answers import Answer, Messages, MessagesAnswer
from partibus.bulk.filter import compile_filter
from partibus.domain.address import parse_address
from partibus.domain.errors import ArgumentError, BusError, EntityNotFound, StoreUnavailable
from partibus.fragment.claims import commands as claims
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.cursors import commands as cursors
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Entity, Namespace
from partibus.gateway.tracing import Tracing

Fields = dict[str, Any]
Local = dict[int, LocalFragment]
Result = TypeVar("Result")
_SUBQUEUES: Final[dict[str, SubQueueType | None]] = {
    "none": SubQueueType.MAIN,
    "deadletter": SubQueueType.DEAD_LETTER,
    "waiting": None,
}
_MESSAGES_PER_BATCH: Final = 16_384


class BulkService:
    """Ranges, claims and cursors."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    @property
    def tracing(self) -> Tracing | None:
        """Makes the spans of traced messages; None unless the server exports them."""
        return self._namespace.tracing

    def entity(self, path: str) -> Entity:
        """The entity of a path."""
        return self._namespace.resolve(parse_address(path))

    def _local(self, path: str, indexes: Iterable[int] | None = None) -> Local:
        """Its fragments in this process: all, or exactly those requested.

        One that is not here may have moved since it was looked up: the client looks it up again.
        """
        fragments = self.entity(path).fragments
        here = {f.index: local for f in fragments if (local := f.local) is not None}
        if indexes is None:
            return here
        for index in indexes:
            if not 0 <= index < len(fragments):
                raise ArgumentError(f"'{path}' has no fragment {index}; it has {len(fragments)}.")
            if index not in here:
                raise StoreUnavailable(
                    f"Fragment {index} of '{path}' is not served here; look up where it is."
                )
        return {index: here[index] for index in indexes}

    # --- actions --------------------------------------------------------------------------

    async def status(self, request: asked.StatusRequest) -> Fields:
        """The status of the fragments, without reading a message."""
        fragments = self._local(request.entity, request.fragments)
        return {"fragments": {index: _status(fragments[index]) for index in fragments}}

    async def plan(self, request: asked.PlanRequest) -> Fields:
        """How far a read of each fragment would get."""
        subqueue = _SUBQUEUES[request.sub_queue]
        whole = asked.Limits(request.max_messages, request.max_bytes)

        def command(index: int, answer: Answer[cursors.RangePlan]) -> Command:
            own = request.limits.get(index, whole)
            start = request.start[index]
            return cursors.PlanRange(answer, subqueue, start, own.messages, own.bytes)

        return await _each(self._local(request.entity, request.start), command, _plan)

    async def find(self, request: asked.FindRequest) -> Fields:
        """The first message of each fragment from a time on."""
        return await self._ask(
            request, lambda answer: cursors.FindTime(answer, request.timestamp_ms), _number
        )

    async def check_filter(self, request: asked.FilterRequest) -> Fields:
        """Refuse an invalid filter, before anything is read with it."""
        self.entity(request.entity)
        compile_filter(request.filter)
        return {}

    async def claim(self, request: asked.ClaimRequest) -> Fields:
        """Claim messages."""
        claim = (request.owner, request.epoch, request.start)

        def command(index: int, answer: Answer[claims.ClaimSummary]) -> Command:
            most = request.limits[index]
            limits = (most.messages, most.bytes, request.duration_ms)
            return claims.ClaimMessages(answer, *claim, *limits)

        return await _each(self._local(request.entity, request.limits), command, _claim)

    async def renew(self, request: asked.RenewRequest) -> Fields:
        """Extend a claim."""
        claim = (request.owner, request.epoch, request.start, request.duration_ms)
        return await self._ask(request, lambda answer: claims.RenewClaim(answer, *claim), _claim)

    async def settle(self, request: asked.SettleRequest) -> Fields:
        """Complete the claimed messages."""
        claim = (request.owner, request.epoch, request.start)
        return await self._ask(request, lambda answer: claims.SettleClaim(answer, *claim), _count)

    async def release(self, request: asked.ReleaseRequest) -> Fields:
        """Release the claimed messages."""
        claim = (request.owner, request.epoch, request.forget)
        return await self._ask(request, lambda answer: claims.ReleaseClaim(answer, *claim), _count)

    async def claims(self, request: asked.ListRequest) -> Fields:
        """The claims and their owners."""
        return await self._ask(request, claims.ListClaims, _claims)

    async def place(self, request: asked.PlaceRequest) -> Fields:
        """Create or move a cursor."""
        limits = (request.retain_ms, request.retain_bytes)
        return await _each(
            self._local(request.entity, request.positions),
            lambda index, answer: cursors.PlaceCursor(
                answer, request.name, request.positions[index], *limits
            ),
            _cursor,
        )

    async def drop(self, request: asked.CursorRequest) -> Fields:
        """Delete a cursor; fragments without it ignore this."""
        return await _each(
            self._local(request.entity),
            lambda _, answer: cursors.DropCursor(answer, request.name),
            _count,
            if_missing=_count(0),
        )

    async def cursors(self, request: asked.ListRequest) -> Fields:
        """Every cursor."""
        return await self._ask(request, cursors.ListCursors, _cursors)

    async def _ask(
        self,
        request: asked.FragmentsRequest,
        command: Callable[[Answer[Result]], Command],
        fields: Callable[[Result], Fields],
    ) -> Fields:
        """Give each fragment that a request names the same command."""
        fragments = self._local(request.entity, request.fragments)
        return await _each(fragments, lambda _, answer: command(answer), fields)

    # --- reading --------------------------------------------------------------------------

    async def read(self, ticket: asked.Ticket, first: int, most_bytes: int) -> Messages:
        """The next messages of a read, from a number on, of about `most_bytes`; empty at its
        end."""
        (fragment,) = self._local(ticket.entity, [ticket.fragment]).values()
        answer = MessagesAnswer()
        limits = (_MESSAGES_PER_BATCH, most_bytes)
        if ticket.mode == "claim":
            fragment.submit(claims.ReadClaim(answer, ticket.owner, ticket.start, first, *limits))
        else:
            subqueue = _SUBQUEUES[ticket.sub_queue]
            fragment.submit(cursors.ReadRange(answer, subqueue, first, ticket.last, *limits))
        messages, bodies = await answer.value
        if ticket.mode == "claim" and messages and messages[-1].sequence >= ticket.last:
            count = sum([held.sequence < ticket.last for held in messages])
            return messages[:count], bodies[:count]
        return messages, bodies


async def _each(
    fragments: Local,
    command: Callable[[int, Answer[Result]], Command],
    fields: Callable[[Result], Fields],
    if_missing: Fields | None = None,
) -> Fields:
    """Ask all fragments at once; a failure is reported in place of the fragment's answer."""

    async def ask(index: int, fragment: LocalFragment) -> Fields:
        answer = Answer[Result]()
        try:
            fragment.submit(command(index, answer))
            return {**fields(await answer.value), "error": None}
        except BusError as error:
            if if_missing is not None and isinstance(error, EntityNotFound):
                return {**if_missing, "error": None}
            return {"error": error_fields(error)}

    answers = await asyncio.gather(*(ask(*item) for item in fragments.items()))
    return {"fragments": dict(zip(fragments, answers, strict=True))}


def error_fields(error: BusError) -> Fields:
    """An error in the form of the bulk path."""
    return {
        "condition": error.condition,
        "text": error.text,
        "retryable": error.retryable,
        "tracking_id": error.tracking_id,
    }


def _status(fragment: LocalFragment) -> Fields:
    state = fragment.machine.state
    counts = state.counts()
    return {
        "earliest": 0 if state.retention is None else state.retention.floor,
        "end": state.next_sequence_durable,
        "active": counts.active,
        "dead_letter": counts.dead_letter,
        "claimed": counts.claimed,
        "retained": counts.retained,
        "staged": counts.staged,
        "bytes": counts.size_bytes,
        "available": fragment.is_available,
        "error": None,
    }


def _number(number: int) -> Fields:
    return {"number": number}


def _count(count: int) -> Fields:
    return {"count": count}


def _plan(plan: cursors.RangePlan) -> Fields:
    return {
        "earliest": plan.earliest,
        "end": plan.end,
        "count": plan.count,
        "bytes": plan.byte_count,
        "next": plan.next_sequence,
    }


def _claims(summaries: list[claims.ClaimSummary]) -> Fields:
    return {"claims": [_claim(summary) for summary in summaries]}


def _cursors(summaries: list[cursors.CursorSummary]) -> Fields:
    return {"cursors": [_cursor(summary) for summary in summaries]}


def _claim(summary: claims.ClaimSummary) -> Fields:
    return {
        "owner": summary.owner,
        "epoch": summary.epoch,
        "start": summary.start,
        "count": summary.count,
        "bytes": summary.byte_count,
        "first": summary.first,
        "last": summary.last,
        "expires_ms": summary.expires_ms,
        "lapsed": summary.is_lapsed,
    }


def _cursor(cursor: cursors.CursorSummary) -> Fields:
    return {
        "name": cursor.name,
        "position": cursor.position,
        "retain_ms": cursor.retain_ms,
        "retain_bytes": cursor.retain_bytes,
        "moved_ms": cursor.moved_ms,
    }
