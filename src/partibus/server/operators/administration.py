"""What an operator sees and does: entities with their fragments, stores, purge.

Owns the answers that need the whole server: it asks every worker through the control hub and merges
the answers with the catalog. It must never touch a store or a fragment's state itself; messages are
deleted only by the command that clients use too. Called by the HTTP side (`ops.admin`), which owns
the paths, and by nothing else.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from partibus import __version__
from partibus.atom.counts import EntityCounts
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.access.access import Grant, require
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.control.declared.describe import describe
from partibus.control.live import LiveNamespace
from partibus.domain.address import parse_address
from partibus.domain.clock import Clock
from partibus.domain.entity import (
    FilterType,
    QueueSpec,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
    fragment_bytes_max,
    kind_of,
    rules_by_name,
)
from partibus.domain.errors import InvalidOperation, Unauthorized
from partibus.domain.moments import calendar_moment
from partibus.domain.rights import Rights, names_of_rights
from partibus.gateway.gateway import Gateway
from partibus.server.bulk import BulkPath
from partibus.server.config import ServeSettings
from partibus.server.fault_injection.service import FaultService
from partibus.server.nodes.no_cluster import NoCluster
from partibus.server.operators import inspection
from partibus.server.operators.backups import BackupService
from partibus.server.operators.connections import ConnectionService
from partibus.server.operators.entity_pages import EntityPageRequest
from partibus.server.operators.events import EventService
from partibus.server.operators.live_feed import LiveFeed
from partibus.server.operators.log_level import LogService
from partibus.server.operators.messages import MessageService
from partibus.server.operators.namespace import NamespaceService
from partibus.server.operators.pipelines import PipelineService
from partibus.server.operators.purge import PurgeRun
from partibus.server.operators.rule_trial import tried
from partibus.server.operators.signals import ENTITIES_MAX, SignalService
from partibus.server.operators.stages import StageService
from partibus.server.testing.clock import FixedClockService
from partibus.server.testing.namespaces import NoNamespaces

if TYPE_CHECKING:
    from partibus.ops.admin.administration import Cluster

NO_ANSWER: Final = "down"
"""The state of a fragment whose worker does not answer."""
SUMMED: Final = (*inspection.COUNTS, "bytes")
_SUMMED: Final = itemgetter(*SUMMED)
_ZEROS: Final = (0,) * len(SUMMED)
GRANTS_MAX: Final = 200
"""Valid tokens, by path, that are remembered: a dozen pages in a dozen consoles."""


class Administration:
    """The whole server, for holders of the Manage right on the namespace."""

    def __init__(
        self,
        settings: ServeSettings,
        catalog: Catalog,
        clock: Clock,
        control: ControlHub,
        bulk: BulkPath,
        backups: BackupService,
        gateway: Gateway,
        live: LiveNamespace,
        bus_clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._namespace = namespace = gateway.namespace
        self._access = gateway.access
        self._clock = clock
        self._bus_clock = clock if bus_clock is None else bus_clock
        """The time of messages, which differs on a server with fake time."""
        self.clock = FixedClockService()
        self.namespaces = NoNamespaces()
        self.cluster: Cluster = NoCluster()
        self.reset: Callable[[], Awaitable[None]] = _refuse_reset
        self._control = control
        self.bulk = bulk
        self.faults = FaultService(settings, catalog, control)
        self.namespace = NamespaceService(catalog, live)
        self.pipelines = PipelineService(namespace, control)
        self.stages = StageService(namespace, control)
        self.connections = ConnectionService(control)
        self.signals = SignalService(catalog, control, ENTITIES_MAX)
        self.events = EventService(control, "worker" if settings.cluster is None else "node")
        self.log = LogService(control)
        self.console_mode = settings.console
        self.messages = MessageService(gateway)
        self.live_feed = LiveFeed(catalog, control, settings.stores)
        self.backups = backups
        self._grants: dict[tuple[str, str], Grant] = {}

    def authorize(self, token: str | None, path: str) -> str:
        """The caller; raises Unauthorized unless the token grants Manage on the namespace
        itself."""
        if not token:
            raise Unauthorized(
                "A shared access signature is needed in the Authorization header; sign it with a "
                "policy of the namespace that has the Manage right."
            )
        now_ms = self._clock.now_ms()
        grant = self._grant(token, path, now_ms)
        require([grant], grant.audience, Rights.MANAGE, now_ms)
        return grant.who

    def _grant(self, token: str, path: str, now_ms: int) -> Grant:
        """What a token grants. Consoles present theirs several times a second: one that was valid
        is checked against the time, its policy and that policy's keys, but not parsed again."""
        known = self._grants.get((token, path))
        if known is not None and known.expires_ms is not None and known.expires_ms > now_ms:
            grant = self._access.recheck(known)
            if grant is not None:
                return grant
        grant = self._access.authenticate_token(token, path, now_ms)
        if grant.policy:  # others, such as a JSON web token, depend on more than a policy
            if len(self._grants) >= GRANTS_MAX:
                self._grants.clear()
            self._grants[token, path] = grant
        return grant

    def identity(self, token: str) -> Payload:
        """The holder of a token and its rights; for the console, which shows only what works."""
        now_ms = self._clock.now_ms()
        grant = self._access.authenticate_any(token, now_ms)
        left_ms = None if grant.expires_ms is None else grant.expires_ms - now_ms
        return {
            "policy": grant.policy,
            "scope": grant.scope,
            "rights": list(names_of_rights(grant.rights)),
            "seconds_left": None if left_ms is None else left_ms // 1000,
            "console": self._settings.console,
            "faults": self._settings.faults,
            "cluster": self._settings.cluster is not None,
            "profile": self._settings.profile.name,
            "version": __version__,
        }

    # --- entities -------------------------------------------------------------------------

    async def entities(self) -> Payload:
        """Every entity with its totals."""
        records = self._catalog.entities()
        fragments = await self._fragments(records)
        shown = [_summary(record, fragments[record.path]) for record in records]
        return {"entities": shown}

    async def page(self, query: Mapping[str, str]) -> Payload:
        """A page of the entities, by filter, order and position."""
        page = EntityPageRequest.of(query)
        records = page.named(self._catalog.entities())
        ranks = await self._ranks(page.counted) if page.counted else {}
        down = await self._stores_down() if page.needs_stores else frozenset()
        found = page.ordered(page.accepted(records, ranks, down), ranks)
        rows = await self._summaries(found[page.skip : page.skip + page.top])
        return {"entities": rows, "count": len(found), "skip": page.skip, "top": page.top}

    async def _ranks(self, counted: Sequence[str]) -> dict[int, int]:
        """The sum of these counts by fragment, for those that have any."""
        answers = await self._control.ask_all(inspection.RANKS, {"counts": list(counted)})
        return {int(n): amount for reported in answers.values() for n, amount in reported.items()}

    async def _stores_down(self) -> frozenset[int]:
        reported = (await self.stores())["stores"]
        return frozenset(
            one["store"] for one in reported if not inspection.is_available(one["state"])
        )

    async def _summaries(self, records: list[EntityRecord]) -> list[Payload]:
        fragments = await self._fragments(records)
        return [
            {**_summary(record, fragments[record.path]), "status": record.spec.status.value}
            for record in records
        ]

    def defaults(self) -> Payload:
        """The default properties of each kind of entity."""
        specs = (QueueSpec(), TopicSpec(), SubscriptionSpec())
        return {kind_of(spec).value: describe(spec) for spec in specs}

    async def try_rules(self, name: str, message: Payload) -> Payload:
        """Which subscriptions a message would reach, and why; nothing is sent."""
        return tried(self._catalog, self._catalog.entity(name), message, self._bus_clock.now_ms())

    async def entity(self, name: str) -> Payload:
        """One entity with its fragments and properties; a missing one is an error."""
        record = self._catalog.entity(name)
        fragments = (await self._fragments([record]))[record.path]
        return {
            **_summary(record, fragments),
            "bytes_max": self._bytes_max(record),
            "fragments": fragments,
            "created_ms": record.created_ms,
            "updated_ms": record.updated_ms,
            "accessed_ms": max((f.get("accessed_ms") or 0 for f in fragments), default=0),
            "properties": describe(record.spec),
            **_rules(record),
        }

    async def entity_counts(self, records: Sequence[EntityRecord]) -> dict[int, EntityCounts]:
        """The counts of each entity by its id, for the management API (CNT-4, SEED-61)."""
        fragments = await self._fragments(records)
        return {record.entity_id: _summed(fragments[record.path]) for record in records}

    def _bytes_max(self, record: EntityRecord) -> int | None:
        """The size limit of all fragments together (SEED-24); a subscription shares its topic's."""
        spec = record.spec
        if isinstance(spec, SubscriptionSpec):
            return None
        return spec.fragments * fragment_bytes_max(spec, self._catalog.profile)

    async def purge(
        self, name: str, subqueue: str, before_ms: int | None, limit: int | None
    ) -> Payload:
        """Delete the waiting messages of a subqueue; `limit` leaves the rest for another call."""
        entity = self._namespace.resolve(parse_address(name))
        # New arrivals stay, so that a purge ends while senders go on.
        moment_ms = self._bus_clock.now_ms() + 1 if before_ms is None else before_ms
        run = PurgeRun(subqueue, moment_ms, limit)
        await run.empty(entity.fragments)
        return {
            "name": entity.record.path,
            "subqueue": subqueue,
            "before": _moment(moment_ms),
            "purged": run.count,
            "finished": run.is_finished,
            "unavailable_fragments": run.unavailable,
        }

    async def _fragments(self, records: Iterable[EntityRecord]) -> dict[str, list[Payload]]:
        """The fragments of each entity by its path, as their workers report them."""
        records = list(records)
        wanted: dict[str, list[int]] = {}
        for record in records:
            for placement in record.fragments:
                wanted.setdefault(str(placement.store), []).append(placement.fragment_id)
        answers = await self._control.ask_all(inspection.FRAGMENTS, {"stores": wanted})
        reported = {
            fragment_id: {"worker": worker, **answer}
            for worker, fragments in answers.items()
            for fragment_id, answer in fragments.items()
        }
        return {record.path: _laid_over(record, reported) for record in records}

    async def pipeline_overview(self) -> Payload:
        """Every entity that pipelines read or write in bulk."""
        return await self.pipelines.overview(self._catalog.entities())

    # --- stores ---------------------------------------------------------------------------

    async def stores(self) -> Payload:
        """Every store with its state and size, and how many fragments are placed there."""
        answers = await self._control.ask_all(inspection.STORES, {})
        reported = {
            number: {"worker": worker, **answer}
            for worker, stores in answers.items()
            for number, answer in stores.items()
        }
        placed: dict[int, int] = {}
        for record in self._catalog.entities():
            for placement in record.fragments:
                placed[placement.store] = placed.get(placement.store, 0) + 1
        return {
            "stores": [
                {
                    "store": number,
                    "place": self._settings.store_name(number),
                    "fragments": placed.get(number, 0),
                    **reported.get(str(number), inspection.SILENT_STORE),
                }
                for number in range(self._settings.stores)
            ]
        }


async def _refuse_reset() -> None:
    raise InvalidOperation(
        "This server cannot be reset: it was started without --testing. Delete entities one by "
        "one, or start it with 'partibus serve --testing' where a reset is wanted."
    )


def _laid_over(record: EntityRecord, reported: Mapping[str, Payload]) -> list[Payload]:
    unknown = dict.fromkeys(("accessed_ms", *SUMMED))
    silent: Payload = {"worker": None, "state": NO_ANSWER, **unknown}
    return [
        {
            "index": index,
            "fragment_id": placement.fragment_id,
            "store": placement.store,
            **reported.get(str(placement.fragment_id), silent),
        }
        for index, placement in enumerate(record.fragments)
    ]


def _summary(record: EntityRecord, fragments: list[Payload]) -> dict[str, Any]:
    return {
        "name": record.path,
        "kind": record.kind.value,
        "fragment_count": len(fragments),
        "availability": availability([fragment["state"] for fragment in fragments]),
        "totals": _totals(fragments),
    }


def _totals(fragments: list[Payload]) -> dict[str, int]:
    """The sums of the counts; a fragment whose worker does not answer has none."""
    rows = [_SUMMED(fragment) for fragment in fragments if fragment["worker"] is not None]
    return dict(zip(SUMMED, map(sum, zip(_ZEROS, *rows, strict=True)), strict=True))


def _rules(record: EntityRecord) -> dict[str, Any]:
    """The rules of a subscription as text; empty for other kinds."""
    if not isinstance(record.spec, SubscriptionSpec):
        return {}
    return {
        "rules": [
            {"name": rule.name, "filter": _filter(rule), "action": rule.action}
            for rule in rules_by_name(record.spec)
        ]
    }


def _filter(rule: RuleSpec) -> str:
    if rule.filter_type is not FilterType.CORRELATION or rule.correlation is None:
        return rule.sql_expression
    conditions = {**asdict(rule.correlation), **rule.correlation.properties}
    del conditions["properties"]
    return " AND ".join(f"{k} = {v!r}" for k, v in conditions.items() if v is not None)


def _summed(fragments: list[Payload]) -> EntityCounts:
    def total(name: str) -> int:
        return sum(fragment.get(name) or 0 for fragment in fragments)

    return EntityCounts(
        active=total("active"),
        dead_letter=total("dead_letter"),
        scheduled=total("scheduled"),
        deferred=total("deferred"),
        transfer=total("transfer"),
        transfer_dead_letter=total("transfer_dead_letter"),
        size_bytes=total("bytes"),
        is_whole=all(inspection.is_available(fragment["state"]) for fragment in fragments),
    )


def _moment(time_ms: int) -> str:
    """A time in a form that is accepted as input too."""
    moment = calendar_moment(time_ms)
    return moment.isoformat(timespec="milliseconds")


def availability(states: list[str]) -> str:
    """How much of an entity is usable: Available, Limited or Unavailable (SEED-62)."""
    up_count = sum(map(inspection.is_available, states))
    if up_count == len(states):
        return "Available"
    return "Limited" if up_count else "Unavailable"
