"""The cluster as its operators see it over HTTP: nodes, lanes, databases, and what moves.

Owns the question `node`, which every node answers for itself, the merging of the answers with the
tables of the cluster, and the changes that an operator may make, each with its preview. The tables
are read at most once in `FRESH_S`, however many readers there are; while the database does not
answer, what this node knows is shown, and marked as such. Must never move a lane itself: the nodes
do. Made by the node of a cluster; asked by `ops.admin.cluster`, the live feed and the metrics.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.control.ownership import LEASE_MS
from partibus.domain.errors import BusError
from partibus.server.operators.inspection import is_available, store_fields
from partibus.server.operators.signals import process_usage
from partibus.store.postgres.address import database_name

if TYPE_CHECKING:
    from partibus.control.lane_placement import Move
    from partibus.control.postgres.operations import ClusterOperations, ClusterStatus
    from partibus.gateway.gateway import Gateway
    from partibus.server.config import ServeSettings
    from partibus.server.nodes.member import ClusterMember

NODE: Final = "node"
FRESH_S: Final = 0.8
"""Several consoles share one reading of the tables."""
TABLES_S_MAX: Final = 2.0
"""A database that takes longer is shown as not answering."""
_REPORTED_BY_NODE: Final = (
    "connections",
    "started_s",
    "resident_bytes",
    "cpu_percent",
    "takeovers",
    "renewals_failed",
    "fenced",
)
UNOWNED: Final = "unowned"
"""The state of a lane that no live node holds."""


class OwnNode:
    """The answer of this node."""

    def __init__(self, member: "ClusterMember", gateway: "Gateway") -> None:
        self._member = member
        self._gateway = gateway
        self._cpu = (time.monotonic(), process_usage()["cpu_s"])
        self._cpu_percent: float | None = None

    def report(self, _payload: Payload) -> Payload:
        """Its lanes by number, what it is working on, and the resources of the process."""
        member, usage = self._member, process_usage()
        keeping, ownership = member.keeping, member.ownership
        return {
            "lanes": {
                str(n): self._lane(n) for n in ([] if member.lanes is None else member.epochs)
            },
            "work": {} if keeping is None else {str(n): w for n, w in keeping.work().items()},
            "problems": {} if keeping is None else {str(n): t for n, t in keeping.problems.items()},
            "serve_ms_left": max(0, ownership.serve_ms_left()),
            "connections": self._gateway.connection_count,
            "pid": usage["pid"],
            "started_s": usage["started_s"],
            "resident_bytes": usage["resident_bytes"],
            "cpu_percent": self._share(usage["cpu_s"]),
            "takeovers": ownership.takeovers,
            "renewals_failed": ownership.renewals_failed,
            "fenced": 0 if keeping is None else keeping.fenced,
        }

    def _lane(self, lane: int) -> Payload:
        assert self._member.lanes is not None
        broker = self._member.lanes.brokers[lane]
        fields = store_fields(broker)
        return {
            "epoch": self._member.epochs[lane],
            "state": fields["state"],
            "live_bytes": fields["live_bytes"],
            "disk_bytes": fields["disk_bytes"],
            "fragments": broker.fragment_count,
        }

    def _share(self, cpu_s: float) -> float | None:
        """CPU share of one core since the last reading; readers at the same time get the same
        value."""
        now_s = time.monotonic()
        then_s, before_s = self._cpu
        if now_s - then_s >= FRESH_S:
            self._cpu = (now_s, cpu_s)
            self._cpu_percent = round((cpu_s - before_s) / (now_s - then_s) * 100, 1)
        return self._cpu_percent


@dataclass(eq=False)
class ClusterView:
    """The whole cluster, as seen by one of its nodes."""

    member: "ClusterMember"
    settings: "ServeSettings"
    catalog: Catalog
    control: ControlHub
    gateway: "Gateway"

    def __post_init__(self) -> None:
        self._placed: dict[int, tuple[int, int]] = {}
        """By lane, how many fragments of how many entities are placed there."""
        self._generation = -1
        self._reading: asyncio.Task[Payload] | None = None
        self._read_s = 0.0
        self.control.register(NODE, OwnNode(self.member, self.gateway).report)

    @property
    def _operations(self) -> "ClusterOperations":
        assert self.member.operations is not None
        return self.member.operations

    # --- what is shown --------------------------------------------------------------------

    async def status(self) -> Payload:
        """Every node, lane and database, and what moves."""
        now_s = time.monotonic()
        if self._reading is None or now_s - self._read_s > FRESH_S:
            self._read_s = now_s
            self._reading = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._reading)

    async def metrics(self) -> Payload:
        """Counts of nodes and lanes; reads no database."""
        answers = await self.control.ask_all(NODE, {})
        status = self.member.known_status()
        return {
            "nodes": answers,
            "states": [_state(row.alive, row.draining) for row in status.nodes],
            "lanes": [
                {"lane": row.number, "database": row.database, **_server(row.number, answers)}
                for row in status.lanes
            ],
        }

    async def _read(self) -> Payload:
        answers = await self.control.ask_all(NODE, {})
        status, problem = await self._tables()
        lanes = [self._lane(status, at, answers) for at in range(len(status.lanes))]
        return {
            "node": self.control.worker,
            "database": {"state": "down" if problem else "up", "text": problem},
            "nodes": [
                self._node(status, at, answers.get(row.number))
                for at, row in enumerate(status.nodes)
            ],
            "lanes": len(lanes),
            "by_lane": lanes,
            "databases": self._databases(lanes),
            "unowned": [lane["lane"] for lane in lanes if lane["owner"] is None],
            "moves": [_move(move) for move in status.moves],
            "work": [
                {"node": node, "lane": int(lane), "what": what}
                for node, answer in answers.items()
                for lane, what in answer["work"].items()
            ],
        }

    async def _tables(self) -> tuple["ClusterStatus", str]:
        """What the database says, or else what this node last read, and why."""
        try:
            async with asyncio.timeout(TABLES_S_MAX):
                return await self._operations.status(), ""
        except (BusError, TimeoutError) as error:
            text = error.text if isinstance(error, BusError) else "It does not answer in time."
            return self.member.known_status(), text

    def _node(self, status: "ClusterStatus", at: int, answer: Payload | None) -> Payload:
        row = status.nodes[at]
        reported = {name: None if answer is None else answer[name] for name in _REPORTED_BY_NODE}
        return {
            "node": row.number,
            "address": f"{row.address.host}:{row.address.port}",
            "version": row.address.version,
            "state": _state(row.alive, row.draining),
            "heartbeat_ms": row.heartbeat_age_ms,
            "lease_ms": max(0, LEASE_MS - row.heartbeat_age_ms),
            "lanes": status.lanes_of(row.number),
            "is_reached": answer is not None,
            **reported,
        }

    def _lane(
        self, status: "ClusterStatus", at: int, answers: dict[int, Payload]
    ) -> dict[str, Any]:
        row = status.lanes[at]
        fragments, entities = self._places().get(row.number, (0, 0))
        leases = {node.number: LEASE_MS - node.heartbeat_age_ms for node in status.nodes}
        served = _served(row.number, answers)
        work = [
            a["work"][str(row.number)] for a in answers.values() if str(row.number) in a["work"]
        ]
        state = UNOWNED if row.owner is None else "not served"
        problems = [t for a in answers.values() if (t := a["problems"].get(str(row.number)))]
        return {
            "lane": row.number,
            "database": row.database,
            "owner": row.owner,
            "since_ms": row.since_ms,
            "lease_ms": None if row.owner is None else max(0, leases.get(row.owner, 0)),
            "state": served["state"] if served else work[0] if work else state,
            "problem": "" if served or not problems else problems[0],
            "fragments": fragments,
            "entities": entities,
            **{
                name: served[name] if served else None
                for name in ("epoch", "live_bytes", "disk_bytes")
            },
        }

    def _databases(self, lanes: list[dict[str, Any]]) -> list[Payload]:
        """A database is up as long as one of its lanes is served from there."""
        names: dict[int, str] = {}
        for lane in lanes:
            names[lane["database"]] = database_name(self.settings.store_places[lane["lane"]])
        found: list[Payload] = []
        for number, name in sorted(names.items()):
            here = [lane for lane in lanes if lane["database"] == number]
            up = [
                lane["lane"]
                for lane in here
                if lane["epoch"] is not None and is_available(lane["state"])
            ]
            found.append(
                {
                    "database": number,
                    "name": name,
                    "state": "up" if up else "down",
                    "lanes": [lane["lane"] for lane in here],
                    "lanes_up": up,
                }
            )
        return found

    def _places(self) -> dict[int, tuple[int, int]]:
        if self._generation != self.catalog.generation:
            self._generation = self.catalog.generation
            fragments: dict[int, int] = {}
            entities: dict[int, set[int]] = {}
            for record in self.catalog.entities():
                for placement in record.fragments:
                    fragments[placement.store] = fragments.get(placement.store, 0) + 1
                    entities.setdefault(placement.store, set()).add(record.entity_id)
            self._placed = {lane: (count, len(entities[lane])) for lane, count in fragments.items()}
        return self._placed

    # --- what is changed ------------------------------------------------------------------

    async def drain(self, node: int, dry_run: bool) -> Payload:
        """Have a node hand its lanes over; the nodes do that after the answer."""
        return self._asked(dry_run, await self._operations.drain(node, dry_run=dry_run))

    async def resume(self, node: int) -> Payload:
        """Have a node that drains take lanes again."""
        await self._operations.resume(node)
        return self._asked(False, [])

    async def rebalance(self, dry_run: bool) -> Payload:
        """Have the nodes spread the lanes evenly."""
        return self._asked(dry_run, await self._operations.rebalance(dry_run=dry_run))

    async def evict(self, node: int, force: bool, dry_run: bool) -> Payload:
        """Remove a node."""
        heirs = await self._operations.heirs(node, alive_too=force)
        if not dry_run:
            await self._operations.evict(node, alive_too=force)
        return self._asked(dry_run, heirs)

    def _asked(self, dry_run: bool, moves: "list[Move]") -> Payload:
        self._reading = None  # the next reader must see the change
        return {"done": not dry_run, "moves": [_move(move) for move in moves]}


def _state(alive: bool, draining: bool) -> str:
    return "down" if not alive else "draining" if draining else "up"


def _served(lane: int, answers: dict[int, Payload]) -> Payload | None:
    """The report of the node that serves a lane; of two the one with the higher epoch."""
    found = [answer["lanes"].get(str(lane)) for answer in answers.values()]
    return max((one for one in found if one), key=lambda one: int(one["epoch"]), default=None)


def _server(lane: int, answers: dict[int, Payload]) -> Payload:
    served = _served(lane, answers)
    nodes = [n for n, answer in answers.items() if answer["lanes"].get(str(lane)) is served]
    return {"owner": nodes[0] if served else 0, "epoch": served["epoch"] if served else 0}


def _move(move: "Move") -> Payload:
    return {"lane": move.lane, "from": move.origin, "to": move.target}
