"""Who reads an entity in bulk: its claims and its cursors, over all workers.

Owns the answers of this worker about its own fragments, and the answer of the whole server; a claim
is released, and a cursor dropped, by the commands that their owners use too. Called by the HTTP
side (`ops.admin.pipelines`) through the administration.
"""

from collections.abc import Sequence
from typing import Any, Final

from partibus.bulk.answers import Answer
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.record import EntityRecord
from partibus.fragment.claims.commands import ReleaseClaim
from partibus.fragment.cursors.commands import DropCursor
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Namespace
from partibus.server.operators.fragments import FragmentQuestions

PIPELINES: Final = "pipelines"
OVERVIEW: Final = "pipelines.overview"
RELEASE: Final = "pipelines.release"
DROP: Final = "pipelines.drop"


class PipelineService:
    """Claims and cursors, for operators."""

    def __init__(self, namespace: Namespace, control: ControlHub) -> None:
        self._control = control
        self._namespace = namespace
        control.register(OVERVIEW, self._overview)
        self._fragments = FragmentQuestions(namespace, control, PIPELINES, _state_of)
        self._fragments.register_change(RELEASE, _release)
        self._fragments.register_change(DROP, _drop)

    # --- this worker ----------------------------------------------------------------------

    def _overview(self, payload: Payload) -> Payload:
        """What pipelines hold in the fragments here, by the number of the fragment."""
        found: Payload = {}
        for fragment in self._namespace.fragments():
            local = fragment.local
            if local is not None and (held := _held(local)) is not None:
                found[str(fragment.fragment_id)] = held
        return found

    # --- all workers ----------------------------------------------------------------------

    async def overview(self, records: Sequence[EntityRecord]) -> Payload:
        """The entities that pipelines read or write in bulk, with their lag."""
        answers = await self._control.ask_all(OVERVIEW, {})
        held = {int(n): one for answer in answers.values() for n, one in answer.items()}
        shown = []
        for record in records if held else ():
            parts = [held[p.fragment_id] for p in record.fragments if p.fragment_id in held]
            if parts:
                shown.append({"name": record.path, **_summed(parts)})
        return {"entities": shown}

    async def claims(self, name: str) -> Payload:
        """Every owner with what it holds."""
        path, fragments = await self._fragments.ask(name)
        owners: dict[str, list[tuple[str, Payload]]] = {}
        for index, reported in fragments.items():
            for claim in reported["claims"]:
                owners.setdefault(claim["owner"], []).append((index, claim))
        return {"name": path, "claims": [_claim(owner, owners[owner]) for owner in sorted(owners)]}

    async def release(self, name: str, owner: str, forget: bool) -> Payload:
        """Release what an owner holds."""
        request = {"owner": owner, "forget": forget}
        path, count = await self._fragments.change(name, RELEASE, request)
        return {"name": path, "owner": owner, "released": count}

    async def cursors(self, name: str) -> Payload:
        """Every cursor with its positions and its lag."""
        path, fragments = await self._fragments.ask(name)
        found: dict[str, list[tuple[str, Payload]]] = {}
        for index, reported in fragments.items():
            for cursor in reported["cursors"]:
                lag = max(0, reported["end"] - cursor["position"])
                found.setdefault(cursor["name"], []).append((index, {**cursor, "lag": lag}))
        return {
            "name": path,
            "cursors": [_cursor(cursor, found[cursor]) for cursor in sorted(found)],
        }

    async def drop(self, name: str, cursor: str) -> Payload:
        """Delete a cursor and what is kept for it alone."""
        path, _ = await self._fragments.change(name, DROP, {"name": cursor})
        return {"name": path, "cursor": cursor, "dropped": True}


def _release(payload: Payload, answer: Answer[int]) -> ReleaseClaim:
    """Release the owner's claims; its run is fenced off, so that it notices."""
    return ReleaseClaim(answer, payload["owner"], None, bool(payload["forget"]))


def _drop(payload: Payload, answer: Answer[int]) -> DropCursor:
    return DropCursor(answer, payload["name"])


def _state_of(fragment: LocalFragment) -> Payload:
    state = fragment.machine.state
    claims = [] if state.claims is None else list(state.claims.by_owner.values())
    cursors = [] if state.retention is None else list(state.retention.cursors.values())
    return {
        "end": state.next_sequence_durable,
        "claims": [
            {
                "owner": claim.owner,
                "epoch": claim.epoch,
                "start": claim.start,
                "count": len(claim.table),
                "bytes": claim.byte_count,
                "expires_ms": claim.expires_ms,
                "lapsed": claim.is_lapsed,
            }
            for claim in claims
        ],
        "cursors": [
            {
                "name": cursor.name,
                "position": cursor.position,
                "retain_ms": cursor.retain_ms,
                "retain_bytes": cursor.retain_bytes,
                "moved_ms": cursor.moved_ms,
            }
            for cursor in cursors
        ],
    }


def _held(fragment: LocalFragment) -> Payload | None:
    """What pipelines hold in a fragment; None when none was ever there."""
    state = fragment.machine.state
    if state.claims is None and state.retention is None and state.stages is None:
        return None
    cursors = [] if state.retention is None else list(state.retention.cursors.values())
    end = state.next_sequence_durable
    return {
        "cursors": [cursor.name for cursor in cursors],
        "lag": sum(max(0, end - cursor.position) for cursor in cursors),
        "owners": [] if state.claims is None else list(state.claims.by_owner),
        "claimed": 0 if state.claims is None else state.claims.message_count,
        "writers": [] if state.stages is None else list(state.stages.writers),
        "staged": 0 if state.stages is None else state.stages.message_count,
    }


def _summed(parts: list[Payload]) -> dict[str, int]:
    named = ("cursors", "owners", "writers")
    return {
        **{field: len({name for part in parts for name in part[field]}) for field in named},
        **{field: sum(part[field] for part in parts) for field in ("lag", "claimed", "staged")},
    }


def _claim(owner: str, claims: list[tuple[str, Payload]]) -> dict[str, Any]:
    live = [claim for _, claim in claims if claim["count"]]
    return {
        "owner": owner,
        "epoch": max(claim["epoch"] for _, claim in claims),
        "start": max((claim["start"] for claim in live), default=""),
        "messages": sum(claim["count"] for claim in live),
        "bytes": sum(claim["bytes"] for claim in live),
        "expires_ms": min((claim["expires_ms"] for claim in live), default=None),
        "lapsed_fragments": [int(index) for index, claim in claims if claim["lapsed"]],
        "fragments": {index: claim["count"] for index, claim in claims if claim["count"]},
    }


def _cursor(name: str, cursors: list[tuple[str, Payload]]) -> dict[str, Any]:
    return {
        "name": name,
        "lag": sum(cursor["lag"] for _, cursor in cursors),
        "moved_ms": max(cursor["moved_ms"] for _, cursor in cursors),
        "retain_ms": max(cursor["retain_ms"] for _, cursor in cursors),
        "retain_bytes": max(cursor["retain_bytes"] for _, cursor in cursors),
        "positions": {index: cursor["position"] for index, cursor in cursors},
    }
