"""The fragments of this process, asked in bulk.

Owns the answers to every action and the reading of ranges, over the fragments of an entity that
run in this process; those of another worker are asked there. Runs on the event loop, waits for
fragments and for nothing else. It knows no Arrow and no Flight; rights are checked before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from partibus.bulk import requests as asked
from partibus.bulk.answers import Answer, Messages, MessagesAnswer
from partibus.bulk.filter import compile_filter
from partibus.domain.address import parse_address
from partibus.domain.errors import ArgumentError, BusError, EntityNotFound, StoreUnavailable
from partibus.fragment.claims import commands as claims
from partibus.fragment.commands import SubQueueType
from partibus.fragment.cursors import commands as cursors
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Entity, Namespace

Fields = dict[str, Any]
Local = dict[int, LocalFragment]
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

    def entity(self, path: str) -> Entity:
        """The entity of a path."""
        return self._namespace.resolve(parse_address(path))

    def _local(self, path: str, indexes: Iterable[int] | None = None) -> Local:
        """Its fragments in this process: all, or exactly those asked for.

        One that is not here may have moved since it was looked up: whoever asks looks again."""
        fragments = self.entity(path).fragments
        here = {f.index: local for f in fragments if (local := f.local) is not None}
        if indexes is None:
            return here
        for index in indexes:
            if not 0 <= index < len(fragments):
                raise ArgumentError(f"'{path}' has {len(fragments)} fragments, and no {index}.")
            if index not in here:
                raise StoreUnavailable(
                    f"Fragment {index} of '{path}' is not served here; ask again where it is."
                )
        return {index: here[index] for index in indexes}

    # --- actions --------------------------------------------------------------------------

    async def status(self, request: asked.StatusRequest) -> Fields:
        """How the fragments stand, without looking at a message."""
        fragments = self._local(request.entity, request.fragments)
        return {"fragments": {index: _status(fragments[index]) for index in fragments}}

    async def plan(self, request: asked.PlanRequest) -> Fields:
        """How far a read of each fragment would come."""
        subqueue = _SUBQUEUES[request.sub_queue]
        whole = asked.Limits(request.max_messages, request.max_bytes)

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[cursors.RangePlan]()
            start = request.start[fragment.index]
            own = request.limits.get(fragment.index, whole)
            fragment.submit(cursors.PlanRange(answer, subqueue, start, own.messages, own.bytes))
            plan = await answer.value
            return {
                "earliest": plan.earliest,
                "end": plan.end,
                "count": plan.count,
                "bytes": plan.byte_count,
                "next": plan.next_sequence,
            }

        return await _each(self._local(request.entity, request.start), ask)

    async def find(self, request: asked.FindRequest) -> Fields:
        """The first message of each fragment from a time on."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[int]()
            fragment.submit(cursors.FindTime(answer, request.timestamp_ms))
            return {"number": await answer.value}

        return await _each(self._local(request.entity, request.fragments), ask)

    async def check_filter(self, request: asked.FilterRequest) -> Fields:
        """Refuse a filter that cannot be used, before anything is read with it."""
        self.entity(request.entity)
        compile_filter(request.filter)
        return {}

    async def claim(self, request: asked.ClaimRequest) -> Fields:
        """Hold messages."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[claims.ClaimSummary]()
            limits = request.limits[fragment.index]
            fragment.submit(
                claims.ClaimMessages(
                    answer,
                    request.owner,
                    request.epoch,
                    request.start,
                    limits.messages,
                    limits.bytes,
                    request.duration_ms,
                )
            )
            return _claim(await answer.value)

        return await _each(self._local(request.entity, request.limits), ask)

    async def renew(self, request: asked.RenewRequest) -> Fields:
        """Hold them for longer."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[claims.ClaimSummary]()
            claim = (request.owner, request.epoch, request.start)
            fragment.submit(claims.RenewClaim(answer, *claim, request.duration_ms))
            return _claim(await answer.value)

        return await _each(self._local(request.entity, request.fragments), ask)

    async def settle(self, request: asked.SettleRequest) -> Fields:
        """Complete them."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[int]()
            fragment.submit(claims.SettleClaim(answer, request.owner, request.epoch, request.start))
            return {"count": await answer.value}

        return await _each(self._local(request.entity, request.fragments), ask)

    async def release(self, request: asked.ReleaseRequest) -> Fields:
        """Give them back."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[int]()
            fragment.submit(
                claims.ReleaseClaim(answer, request.owner, request.epoch, request.forget)
            )
            return {"count": await answer.value}

        return await _each(self._local(request.entity, request.fragments), ask)

    async def claims(self, request: asked.ListRequest) -> Fields:
        """Who holds what."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[list[claims.ClaimSummary]]()
            fragment.submit(claims.ListClaims(answer))
            return {"claims": [_claim(summary) for summary in await answer.value]}

        return await _each(self._local(request.entity, request.fragments), ask)

    async def place(self, request: asked.PlaceRequest) -> Fields:
        """Make a cursor, or move it."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[cursors.CursorSummary]()
            position = request.positions[fragment.index]
            limits = (request.retain_ms, request.retain_bytes)
            fragment.submit(cursors.PlaceCursor(answer, request.name, position, *limits))
            return _cursor(await answer.value)

        return await _each(self._local(request.entity, request.positions), ask)

    async def drop(self, request: asked.CursorRequest) -> Fields:
        """Forget a cursor; fragments that do not have it have nothing to forget."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[int]()
            fragment.submit(cursors.DropCursor(answer, request.name))
            try:
                return {"count": await answer.value}
            except EntityNotFound:
                return {"count": 0}

        return await _each(self._local(request.entity), ask)

    async def cursors(self, request: asked.ListRequest) -> Fields:
        """Every cursor."""

        async def ask(fragment: LocalFragment) -> Fields:
            answer = Answer[list[cursors.CursorSummary]]()
            fragment.submit(cursors.ListCursors(answer))
            return {"cursors": [_cursor(cursor) for cursor in await answer.value]}

        return await _each(self._local(request.entity, request.fragments), ask)

    # --- reading --------------------------------------------------------------------------

    async def read(self, ticket: asked.Ticket, first: int, most_bytes: int) -> Messages:
        """The next messages of a read, from a number on, of about `most_bytes`; none at its
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


async def _each(fragments: Local, ask: Callable[[LocalFragment], Awaitable[Fields]]) -> Fields:
    """Ask all fragments at once; a failure is reported in the fragment's place."""

    async def guarded(fragment: LocalFragment) -> Fields:
        try:
            return {**await ask(fragment), "error": None}
        except BusError as error:
            return {"error": error_fields(error)}

    answers = await asyncio.gather(*(guarded(fragment) for fragment in fragments.values()))
    return {"fragments": dict(zip(fragments, answers, strict=True))}


def error_fields(error: BusError) -> Fields:
    """An error as clients of the bulk path read it."""
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
