"""`GET /metrics`: what the server counts, as Prometheus reads it.

Owns the names of the metrics, the corresponding names in Azure Monitor, and who may read them. The
values come from the node (`server.operators.signals`). The table here is the reference: a test
compares docs/reference/metrics.md with it, and with a real scrape.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import ip_address
from itertools import compress
from operator import is_not, itemgetter
from threading import Lock
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus import __version__
from partibus.domain.errors import EntityNotFound
from partibus.domain.observing.cost import OBSERVING
from partibus.http.headers import FRESH
from partibus.ops.admin.administration import Administration
from partibus.ops.admin.forms import answering
from partibus.ops.metrics_access import LOOPBACK, OFF, OPEN
from partibus.ops.metrics_lines import histogram_lines, labelled, pairs_of

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
PATH: Final = "/metrics"
FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: its name, where its value is found, and its name in Azure Monitor."""

    name: str
    kind: str
    key: str
    text: str
    azure: str = ""

    @property
    def shown(self) -> str:
        """The name in a scrape."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


ENTITY_LABELS: Final = ("entity", "kind")
ENTITY: Final = (
    Series("partibus_entity_incoming_messages", COUNTER, "incoming",
           "Messages that were stored, scheduled ones included.", "IncomingMessages"),
    Series("partibus_entity_outgoing_messages", COUNTER, "outgoing",
           "Deliveries to receivers.", "OutgoingMessages"),
    Series("partibus_entity_completed_messages", COUNTER, "completed",
           "Messages that receivers completed.", "CompleteMessage"),
    Series("partibus_entity_abandoned_messages", COUNTER, "abandoned",
           "Messages that receivers abandoned.", "AbandonMessage"),
    Series("partibus_entity_deferred_messages", COUNTER, "deferred_total",
           "Messages that receivers deferred."),
    Series("partibus_entity_dead_lettered_messages", COUNTER, "dead_lettered",
           "Messages that went to the dead-letter queue."),
    Series("partibus_entity_expired_messages", COUNTER, "expired",
           "Messages whose time to live ended, dead-lettered or dropped."),
    Series("partibus_entity_lock_expirations", COUNTER, "lapsed",
           "Message locks that ended because their time was up."),
    Series("partibus_entity_locks_lost", COUNTER, "lost",
           "Settlements that were refused because the lock was gone."),
    Series("partibus_entity_duplicates_dropped", COUNTER, "duplicates_dropped",
           "Messages that were accepted and dropped as duplicates."),
    Series("partibus_entity_filter_errors", COUNTER, "filter_errors",
           "Filters and actions of a topic that failed."),
    Series("partibus_entity_active_messages", GAUGE, "active",
           "Messages that wait or are locked.", "ActiveMessages"),
    Series("partibus_entity_dead_letter_messages", GAUGE, "dead_letter",
           "Messages in the dead-letter queue.", "DeadletteredMessages"),
    Series("partibus_entity_scheduled_messages", GAUGE, "scheduled",
           "Messages that become active later.", "ScheduledMessages"),
    Series("partibus_entity_deferred_waiting_messages", GAUGE, "deferred",
           "Messages that wait to be received by their number."),
    Series("partibus_entity_locked_messages", GAUGE, "locked",
           "Messages under a lock, dead letters among them."),
    Series("partibus_entity_transfer_messages", GAUGE, "transfer",
           "Messages on their way to another entity."),
    Series("partibus_entity_transfer_dead_letter_messages", GAUGE, "transfer_dead_letter",
           "Messages that could not be forwarded."),
    Series("partibus_entity_claimed_messages", GAUGE, "claimed",
           "Active messages that pipelines hold."),
    Series("partibus_entity_size_bytes", GAUGE, "bytes",
           "Bytes of the messages.", "Size"),
)  # fmt: skip
ENTITY_FRAGMENTS: Final = (
    Series("partibus_entity_messages", GAUGE, "",
           "Messages in every state.", "Messages"),
    Series("partibus_entity_fragments", GAUGE, "fragment_count", "Fragments of the entity."),
    Series("partibus_entity_fragments_available", GAUGE, "available",
           "Fragments whose store is up."),
)  # fmt: skip
MESSAGE_COUNTS: Final = (
    "active", "dead_letter", "scheduled", "deferred", "transfer", "transfer_dead_letter",
)  # fmt: skip
FRAGMENT_LABELS: Final = ("entity", "fragment", "store", "worker")
FRAGMENT: Final = (
    Series("partibus_fragment_incoming_messages", COUNTER, "incoming",
           "Messages that were stored in a fragment of a partitioned entity."),
    Series("partibus_fragment_outgoing_messages", COUNTER, "outgoing",
           "Deliveries from the fragment."),
    Series("partibus_fragment_active_messages", GAUGE, "active",
           "Messages of the fragment that wait or are locked."),
    Series("partibus_fragment_dead_letter_messages", GAUGE, "dead_letter",
           "Dead letters of the fragment."),
    Series("partibus_fragment_size_bytes", GAUGE, "bytes", "Bytes of the fragment's messages."),
)  # fmt: skip
STORE_LABELS: Final = ("store", "worker")
STORE: Final = (
    Series("partibus_store_up", GAUGE, "up", "1 when the store commits, 0 when it is down."),
    Series("partibus_store_degraded", GAUGE, "degraded",
           "1 when it commits slowly, cannot checkpoint, or is short of space."),
    Series("partibus_store_full", GAUGE, "full",
           "1 when no messages are accepted because the disk is almost full."),
    Series("partibus_store_fragments", GAUGE, "fragments", "Fragments that are kept there."),
    Series("partibus_store_live_bytes", GAUGE, "live_bytes", "Bytes of messages still needed."),
    Series("partibus_store_disk_bytes", GAUGE, "disk_bytes", "Bytes of its files."),
    Series("partibus_store_free_bytes", GAUGE, "free_bytes", "Bytes free on its disk."),
    Series("partibus_store_damaged_messages", COUNTER, "damaged",
           "Stored messages that failed their checksum."),
    Series("partibus_store_append_seconds", HISTOGRAM, "append",
           "Time until an append is durable; the oldest of each group commit."),
    Series("partibus_store_fsync_seconds", HISTOGRAM, "fsync",
           "Time of the sync to disk, once per group commit."),
)  # fmt: skip
WORKER_LABELS: Final = ("worker",)
WORKER: Final = (
    Series("partibus_worker_up", GAUGE, "up", "1 when the worker answered this scrape."),
    Series("partibus_connections_opened", COUNTER, "opened",
           "Connections that were opened.", "ConnectionsOpened"),
    Series("partibus_connections_closed", COUNTER, "closed",
           "Connections that were closed.", "ConnectionsClosed"),
    Series("partibus_links", GAUGE, "links", "AMQP links."),
    Series("partibus_client_memory_bytes", GAUGE, "memory_bytes",
           "Memory that the worker uses for clients."),
    Series("partibus_send_seconds", HISTOGRAM, "send",
           "Time from a transfer to its answer; one send per link at a time.", "ServerSendLatency"),
    Series("partibus_settlement_seconds", HISTOGRAM, "settlement",
           "Time from a disposition to its answer."),
    Series("partibus_delivery_wait_seconds", HISTOGRAM, "delivery",
           "Time from storing a message to its delivery; the first of each batch."),
    Series("partibus_worker_cpu_seconds", COUNTER, "cpu_s", "Processor time."),
    Series("partibus_observing_cpu_seconds", COUNTER, "observing_s",
           "Processor time for observers: metrics, health, events and the console."),
    Series("partibus_worker_resident_memory_bytes", GAUGE, "resident_bytes", "Resident memory."),
    Series("partibus_worker_open_files", GAUGE, "open_files", "Open file descriptors."),
    Series("partibus_worker_start_time_seconds", GAUGE, "started_s",
           "When the process started, in seconds since 1970."),
)  # fmt: skip
LANE_LABELS: Final = ("lane", "database")
LANE: Final = (
    Series("partibus_lane_owner", GAUGE, "owner",
           "The node of the cluster that serves the lane; 0 when none does."),
    Series("partibus_lane_epoch", GAUGE, "epoch",
           "How many writers the lane has had; 0 when it is not served."),
)  # fmt: skip
NODE_LABELS: Final = ("node",)
NODE: Final = (
    Series("partibus_node_lanes", GAUGE, "lane_count", "Lanes that the node serves."),
    Series("partibus_node_lease_seconds", GAUGE, "lease_s",
           "How long its leases last unless it renews them."),
    Series("partibus_node_takeovers", COUNTER, "takeovers",
           "Lanes that it took over from a node whose lease had lapsed."),
    Series("partibus_node_lease_renewals_failed", COUNTER, "renewals_failed",
           "Renewals of its leases that the database did not accept."),
    Series("partibus_node_appends_fenced", COUNTER, "fenced",
           "Lanes whose writes were refused because another node had taken them over."),
)  # fmt: skip
CLUSTER: Final = Series(
    "partibus_cluster_nodes", GAUGE, "states", "Nodes of the cluster that are up, draining or down."
)
CONNECTIONS: Final = Series("partibus_connections", GAUGE, "connections",
                            "Open connections.", "ActiveConnections")  # fmt: skip
ERRORS: Final = Series("partibus_errors", COUNTER, "errors",
                       "Errors reported to clients, by whose fault they are and by condition.",
                       "ServerErrors, UserErrors, ThrottledRequests")  # fmt: skip
AGGREGATED: Final = Series("partibus_metrics_entities_aggregated", GAUGE, "aggregated",
                           "Entities beyond the cap on labels, together as (other).")  # fmt: skip
INFO: Final = Series("partibus_info", GAUGE, "", "The version of the server.")

LABELS: Final = {
    **dict.fromkeys((*ENTITY, *ENTITY_FRAGMENTS), ENTITY_LABELS),
    **dict.fromkeys(FRAGMENT, FRAGMENT_LABELS),
    **dict.fromkeys(STORE, STORE_LABELS),
    **dict.fromkeys(WORKER, WORKER_LABELS),
    **dict.fromkeys(LANE, LANE_LABELS),
    **dict.fromkeys(NODE, NODE_LABELS),
    CLUSTER: ("state",),
    CONNECTIONS: ("worker", "transport"),
    ERRORS: ("worker", "kind", "condition"),
    AGGREGATED: (),
    INFO: ("version",),
}
"""Every metric with its labels, in the order in which they are documented."""

QUICK_ENTITIES_MAX: Final = 20
QUICK_LINES_MAX: Final = 500
"""What is written at once: little enough that the loop need not be kept free of it by a thread."""
PIECE_ENTITIES: Final = 50
"""Lines of a series that are joined again when one of them has changed."""
Row = tuple[tuple[str, ...], Any]


def metrics_route(node: Administration, access: str) -> Route:
    """The route that Prometheus scrapes."""
    text_of_entities = EntityText()

    @answering
    async def endpoint(request: Request) -> Response:
        _admit(node, request, access)
        signals = await node.signals.gather()
        work = partial(render, signals, text_of_entities)
        if text_of_entities.is_quick(signals["entities"]):
            text = work()
        else:  # in a thread: with thousands of series the loop would be blocked
            text = await asyncio.to_thread(OBSERVING.around, work)
        return Response(text, 200, FRESH | {"content-type": FORMAT})

    return Route(PATH, endpoint, methods=["GET"])


def _admit(node: Administration, request: Request, access: str) -> None:
    if access == OFF:
        raise EntityNotFound("The metrics are switched off: this server runs with --metrics off.")
    if access == OPEN or (access == LOOPBACK and _is_near(request)):
        return
    node.authorize(request.headers.get("authorization"), PATH)


def _is_near(request: Request) -> bool:
    """Whether the request comes from a program of this machine, not through a proxy."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def render(signals: dict[str, Any], text_of_entities: "EntityText | None" = None) -> bytes:
    """A scrape in the text format; plain strings, since there may be thousands of series."""
    heads: list[str] = []
    for series, rows in _heads(signals):
        _write(heads, series, rows)
    tails: list[str] = []
    for series, rows in _tails(signals):
        _write(tails, series, rows)
    kept = text_of_entities or EntityText()
    entities, kept.other_lines = kept.pieces(signals["entities"]), len(tails)
    return b"\n".join([_encoded(heads), *entities, _encoded(tails), b""])


def _encoded(lines: Iterable[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "replace")


class EntityText:
    """The lines of all entities as they were in the last scrape.

    Most series are these, and most of them have not changed: unchanged lines are not formatted
    again, and unchanged pieces of a series not joined again. Concurrent scrapes wait for each
    other.
    """

    def __init__(self) -> None:
        self._turn = Lock()
        self._entities: list[dict[str, Any]] = []
        self._rows: list[tuple[int, ...]] = []
        self._lines: list[list[str]] = []
        self._pieces: list[bytes] = []
        self._piece_count = 0
        self.other_lines = 0
        """What else was written in the last scrape."""
        self._begin(0)

    def is_quick(self, entities: list[dict[str, Any]]) -> bool:
        """Whether a scrape takes no longer than a batch of messages."""
        if self._turn.locked() or len(entities) != len(self._entities):
            return False
        changed = sum(map(is_not, entities, self._entities))
        return changed <= QUICK_ENTITIES_MAX and self.other_lines <= QUICK_LINES_MAX

    def pieces(self, entities: list[dict[str, Any]]) -> list[bytes]:
        """The text of every series of entities, in pieces to be joined by ends of lines."""
        with self._turn:
            due = self._due(entities)
            for series, piece in {place for at in due for place in self._format(at, entities[at])}:
                self._join(series, piece)
            self._entities = entities
            return self._pieces.copy()

    def _due(self, entities: list[dict[str, Any]]) -> Sequence[int]:
        """The positions whose lines may have changed."""
        before = self._entities
        if len(entities) == len(before):
            # The values of an entity are the same object as long as they are valid.
            due = list(compress(range(len(entities)), map(is_not, entities, before)))
            if all(_NAME(entities[at]) == _NAME(before[at]) for at in due):
                return due
        self._begin(len(entities))
        return range(len(entities))

    def _begin(self, count: int) -> None:
        """There are other entities: start from scratch."""
        self._entities, self._rows = [], [()] * count
        self._lines = [[""] * count for _ in _ENTITY_SERIES]
        self._piece_count = -(-count // PIECE_ENTITIES)
        self._pieces = []
        for series in _ENTITY_SERIES:
            self._pieces += [_encoded(_titles(series)), *[b""] * self._piece_count]

    def _format(self, at: int, entity: dict[str, Any]) -> Iterator[tuple[int, int]]:
        """Format the changed lines of an entity; returns the series, and the piece of each."""
        row, before = _row_of(entity), self._rows[at]
        label = labelled(ENTITY_LABELS, _NAME(entity))
        for series, value in enumerate(row):
            if not before or value != before[series]:
                self._lines[series][at] = f"{_ENTITY_SERIES[series].shown}{label} {value}"
                yield series, at // PIECE_ENTITIES
        self._rows[at] = row

    def _join(self, series: int, piece: int) -> None:
        begin = piece * PIECE_ENTITIES
        lines = self._lines[series][begin : begin + PIECE_ENTITIES]
        self._pieces[series * (self._piece_count + 1) + 1 + piece] = _encoded(lines)


def families(signals: dict[str, Any]) -> Iterator[tuple[Series, list[Row]]]:
    """The same as rows of labels and values, for other formats."""
    entities = signals["entities"]
    yield from ((series, list(rows)) for series, rows in _heads(signals))
    labels = [(entity["name"], entity["kind"]) for entity in entities]
    rows = [_row_of(entity) for entity in entities]
    for at, series in enumerate(_ENTITY_SERIES):
        yield series, [(found, row[at]) for found, row in zip(labels, rows, strict=True)]
    yield from ((series, list(rows)) for series, rows in _tails(signals))


def _heads(signals: dict[str, Any]) -> Iterator[tuple[Series, Iterable[Row]]]:
    yield INFO, [((__version__,), 1)]
    yield AGGREGATED, [((), signals["aggregated"])]


def _tails(signals: dict[str, Any]) -> Iterator[tuple[Series, Iterable[Row]]]:
    """Everything that does not belong to entities."""
    entities, workers = signals["entities"], signals["workers"]
    partitioned = [entity for entity in entities if entity["fragment_count"] > 1]
    for series in FRAGMENT:
        yield series, _of_fragments(series, partitioned)
    for series in STORE:
        yield series, _of_stores(series, workers)
    for series in WORKER:
        yield series, _of_workers(series, workers)
    cluster = signals.get("cluster")
    for series in LANE:
        yield series, _of_lanes(series, cluster)
    for series in NODE:
        yield series, _of_nodes(series, cluster)
    yield CLUSTER, _node_states(cluster)
    yield CONNECTIONS, _connections(workers)
    yield ERRORS, _errors(workers)


def _write(lines: list[str], series: Series, rows: Iterable[Row]) -> None:
    name, labels = series.shown, LABELS[series]
    lines += _titles(series)
    if series.kind == HISTOGRAM:
        for values, found in rows:
            lines += histogram_lines(name, pairs_of(labels, values), found)
        return
    lines += [f"{name}{labelled(labels, values)} {value}" for values, value in rows]


@cache
def _titles(series: Series) -> tuple[str, str]:
    name = series.shown
    return f"# HELP {name} {series.text}", f"# TYPE {name} {series.kind}"


_NAME: Final = itemgetter("name", "kind")
_ENTITY_SERIES: Final = (*ENTITY, *ENTITY_FRAGMENTS)
_ENTITY_COUNTS: Final = itemgetter(*(series.key for series in ENTITY))
_MESSAGES: Final = itemgetter(*MESSAGE_COUNTS)


def _row_of(entity: dict[str, Any]) -> tuple[int, ...]:
    """The values of an entity, in the order of its series."""
    counts = entity["counts"]
    messages = sum(_MESSAGES(counts))
    return (*_ENTITY_COUNTS(counts), messages, entity["fragment_count"], entity["available"])


def _of_fragments(series: Series, partitioned: list[dict[str, Any]]) -> Iterator[Row]:
    """Omitted for a single fragment, which would repeat the entity."""
    for entity in partitioned:
        for fragment in entity["fragments"]:
            if fragment["counts"] is not None:
                place = (fragment["index"], fragment["store"], fragment["worker"])
                yield (entity["name"], *map(str, place)), fragment["counts"][series.key]


def _of_stores(series: Series, workers: dict[int, Any]) -> Iterator[Row]:
    for worker, answer in workers.items():
        for number, store in () if answer is None else answer["stores"].items():
            state = store["state"]
            flags = {
                "up": int(state != "down"),
                "degraded": int(state == "degraded"),
                "full": int(store["shortage"] is not None),
            }
            value = flags[series.key] if series.key in flags else store[series.key]
            if value is not None:
                yield (number, str(worker)), value


def _of_workers(series: Series, workers: dict[int, Any]) -> Iterator[Row]:
    for worker, answer in workers.items():
        if series.key == "up":
            yield (str(worker),), int(answer is not None)
        elif answer is not None:
            part = "gateway" if series.key in answer["gateway"] else "process"
            yield (str(worker),), answer[part][series.key]


def _of_lanes(series: Series, cluster: dict[str, Any] | None) -> Iterator[Row]:
    for lane in () if cluster is None else cluster["lanes"]:
        yield (str(lane["lane"]), str(lane["database"])), lane[series.key]


def _of_nodes(series: Series, cluster: dict[str, Any] | None) -> Iterator[Row]:
    for number, node in () if cluster is None else cluster["nodes"].items():
        derived = {"lane_count": len(node["lanes"]), "lease_s": node["serve_ms_left"] / 1000}
        yield (str(number),), {**node, **derived}[series.key]


def _node_states(cluster: dict[str, Any] | None) -> Iterator[Row]:
    """Every state has a row, so that a former state is 0 and not its last value."""
    if cluster is not None:
        for state in ("up", "draining", "down"):
            yield (state,), cluster["states"].count(state)


def _connections(workers: dict[int, Any]) -> Iterator[Row]:
    for worker, answer in workers.items():
        for transport, count in () if answer is None else answer["gateway"]["connections"].items():
            yield (str(worker), transport), count


def _errors(workers: dict[int, Any]) -> Iterator[Row]:
    for worker, answer in workers.items():
        for kind, condition, count in () if answer is None else answer["errors"]:
            yield (str(worker), kind, condition), count
