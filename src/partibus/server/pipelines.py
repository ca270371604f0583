"""Who reads an entity in bulk: its claims and its cursors, over all workers.

Owns the answers of this worker about its own fragments, and the answer of the whole server; a claim
is released, and a cursor dropped, by the commands that their owners use too. Called by the HTTP
side (`ops.admin`) through the administration.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from partibus.domain.address import parse_address
from partibus.domain.errors import BusError, EntityNotFound, StoreUnavailable
from partibus.fragment.claim_commands import ReleaseClaim
from partibus.fragment.cursor_commands import DropCursor
from partibus.fragment.handle import LocalFragment
from partibus.gateway.namespace import Namespace
from partibus.server.control_hub import ControlHub, Payload

PIPELINES: Final = "pipelines"
RELEASE: Final = "pipelines.release"
DROP: Final = "pipelines.drop"
POLL_S: Final = 0.02
CHANGE_S_MAX: Final = 10.0


class _Unheard:
    """The answer is looked up, not waited for."""

    def done(self, count: int) -> None:
        pass

    def failed(self, error: BusError) -> None:
        pass


class PipelineDesk:
    """Claims and cursors, for operators."""

    def __init__(self, namespace: Namespace, control: ControlHub) -> None:
        self._namespace = namespace
        self._control = control
        control.register(PIPELINES, self._told)
        control.register(RELEASE, self._release)
        control.register(DROP, self._drop)

    # --- this worker ----------------------------------------------------------------------

    def _local(self, path: str) -> list[LocalFragment]:
        fragments = self._namespace.resolve(parse_address(path)).fragments
        return [fragment for fragment in fragments if isinstance(fragment, LocalFragment)]

    def _told(self, payload: Payload) -> Payload:
        """What the fragments here know, by index."""
        return {str(f.index): _state_of(f) for f in self._local(payload["entity"])}

    def _release(self, payload: Payload) -> Payload:
        """Take the owner's claims away; its run is shut out, so that it notices."""
        for fragment in self._local(payload["entity"]):
            claims = fragment.machine.state.claims
            claim = None if claims is None else claims.by_owner.get(payload["owner"])
            if claim is not None:
                epoch = claim.epoch + 1
                fragment.submit(
                    ReleaseClaim(_Unheard(), claim.owner, epoch, bool(payload["forget"]))
                )
        return {}

    def _drop(self, payload: Payload) -> Payload:
        for fragment in self._local(payload["entity"]):
            fragment.submit(DropCursor(_Unheard(), payload["name"]))
        return {}

    # --- all workers ----------------------------------------------------------------------

    async def claims(self, name: str) -> Payload:
        """Every owner with what it holds."""
        path, fragments = await self._ask(name)
        owners: dict[str, list[tuple[str, Payload]]] = {}
        for index, told in fragments.items():
            for claim in told["claims"]:
                owners.setdefault(claim["owner"], []).append((index, claim))
        return {"name": path, "claims": [_claim(owner, owners[owner]) for owner in sorted(owners)]}

    async def release(self, name: str, owner: str, forget: bool) -> Payload:
        """Give back what an owner holds."""
        path, fragments = await self._ask(name)
        mine = [c for told in fragments.values() for c in told["claims"] if c["owner"] == owner]
        if not mine:
            raise EntityNotFound(f"'{path}' has no owner of claims '{owner}'.")
        count = sum(claim["count"] for claim in mine)
        await self._control.ask_all(RELEASE, {"entity": path, "owner": owner, "forget": forget})
        await self._until(
            path,
            lambda told: not any(c["owner"] == owner and c["count"] for c in told["claims"]),
        )
        return {"name": path, "owner": owner, "released": count}

    async def cursors(self, name: str) -> Payload:
        """Every cursor with its positions and its lag."""
        path, fragments = await self._ask(name)
        found: dict[str, list[tuple[str, Payload]]] = {}
        for index, told in fragments.items():
            for cursor in told["cursors"]:
                lag = max(0, told["end"] - cursor["position"])
                found.setdefault(cursor["name"], []).append((index, {**cursor, "lag": lag}))
        return {
            "name": path,
            "cursors": [_cursor(cursor, found[cursor]) for cursor in sorted(found)],
        }

    async def drop(self, name: str, cursor: str) -> Payload:
        """Forget a cursor and what is kept for it alone."""
        path, fragments = await self._ask(name)
        names = {c["name"] for told in fragments.values() for c in told["cursors"]}
        if cursor not in names:
            raise EntityNotFound(f"'{path}' has no cursor '{cursor}'.")
        await self._control.ask_all(DROP, {"entity": path, "name": cursor})
        await self._until(path, lambda told: not any(c["name"] == cursor for c in told["cursors"]))
        return {"name": path, "cursor": cursor, "dropped": True}

    async def _ask(self, name: str) -> tuple[str, dict[str, Payload]]:
        path = self._namespace.resolve(parse_address(name)).record.path
        answers = await self._control.ask_all(PIPELINES, {"entity": path})
        fragments = {index: told for answer in answers.values() for index, told in answer.items()}
        return path, {index: fragments[index] for index in sorted(fragments, key=int)}

    async def _until(self, path: str, is_done: Callable[[Payload], bool]) -> None:
        """Wait until every fragment that answers says so; one whose store is down does not."""
        deadline = asyncio.get_running_loop().time() + CHANGE_S_MAX
        while True:
            _, fragments = await self._ask(path)
            open_ = [index for index, told in fragments.items() if not is_done(told)]
            down = [index for index in open_ if not fragments[index]["available"]]
            if not open_:
                return
            if down or asyncio.get_running_loop().time() > deadline:
                listed = ", ".join(down or open_)
                raise StoreUnavailable(
                    f"Fragments {listed} of '{path}' could not do it: their store is down or slow. "
                    "The others have; try again."
                )
            await asyncio.sleep(POLL_S)


def _state_of(fragment: LocalFragment) -> Payload:
    state = fragment.machine.state
    claims = [] if state.claims is None else list(state.claims.by_owner.values())
    cursors = [] if state.retention is None else list(state.retention.cursors.values())
    return {
        "end": state.next_sequence_durable,
        "available": fragment.is_available,
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
