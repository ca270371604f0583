"""What operators are told about a node, and who is told at all."""

import asyncio
from collections.abc import Callable

import pytest

from partibus.client.cbs import sas_token
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.access.policies import DEVELOPMENT_KEY, ROOT_POLICY_NAME, AccessPolicy
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import ArgumentError, EntityNotFound, Unauthorized
from partibus.domain.rights import Rights
from partibus.server.bulk import BulkPath
from partibus.server.config import ServeSettings
from partibus.server.operators.administration import Administration, availability
from partibus.server.operators.backups import BackupService
from partibus.server.operators.inspection import COUNTS, Inspection
from partibus.testing.bus import BusBench
from partibus.testing.local_namespace import LocalNamespace
from support.gateway.messages import keyed, plain

PATH = "/$partibus/entities"


class Bench:
    """A bus of three stores and its administration; store 2 may be another worker's."""

    def __init__(self, far_store: bool = False) -> None:
        self.bus = BusBench(stores=3, faults=True)
        self.control = ControlHub()
        own = 2 if far_store else 3
        brokers = dict(enumerate(self.bus.brokers[:own]))
        self.machines: dict[int, object] = {}
        Inspection(brokers, self.machines).register(self.control)  # type: ignore[arg-type]
        settings = ServeSettings(stores=3, memory=True)
        bus = self.bus
        bulk = BulkPath(settings, bus.gateway, bus.clock, self.control)
        backups = BackupService(settings, None, brokers, self.control, bus.clock, bus.scheduler)
        self.node = Administration(
            settings,
            bus.catalog,
            bus.clock,
            self.control,
            bulk,
            backups,
            bus.gateway,
            LocalNamespace(bus.catalog),
        )

    def queue(self, path: str, fragments: int = 1) -> None:
        spec = QueueSpec(enable_partitioning=fragments > 1, fragments=fragments)
        for fragment in self.bus.queue(path, spec):
            self.machines[fragment.fragment_id] = fragment.machine

    def send(self, path: str, payloads: list[bytes]) -> None:
        client = self.bus.client()
        client.send(client.attach(path, sends=True), payloads)

    def token(self, resource: str = "http://bus/", **changes: object) -> str:
        values = {"policy": ROOT_POLICY_NAME, "key": DEVELOPMENT_KEY, "expires_at": 10**9}
        values["expires_at"] = self.bus.clock.now_ms() // 1000 + 60
        return sas_token(resource, **(values | changes))  # type: ignore[arg-type]


@pytest.mark.rule("SEED-61")
async def test_an_entity_shows_its_fragments_and_their_sum() -> None:
    bench = Bench()
    bench.queue("Orders", 6)
    bench.send("orders", [plain(n) for n in range(12)])
    shown = await bench.node.entity("ORDERS")
    assert shown["name"] == "Orders"
    assert (shown["kind"], shown["fragment_count"], shown["availability"]) == (
        "queue",
        6,
        "Available",
    )
    assert [f["index"] for f in shown["fragments"]] == list(range(6))
    assert [f["store"] for f in shown["fragments"]] == [0, 1, 2, 0, 1, 2]
    assert {f["active"] for f in shown["fragments"]} == {2}
    assert {(f["worker"], f["state"]) for f in shown["fragments"]} == {(0, "up")}
    totals = shown["totals"]
    assert (totals["active"], totals["dead_letter"], totals["locked"]) == (12, 0, 0)
    assert totals["bytes"] == sum(f["bytes"] for f in shown["fragments"]) > 0
    assert shown["properties"]["lock_duration"] == "PT1M"
    assert shown["properties"]["partition_count"] == 6


@pytest.mark.rule("SEED-62")
async def test_a_store_that_is_down_limits_what_is_available() -> None:
    bench = Bench()
    bench.queue("orders", 6)
    bench.queue("single")
    bench.bus.stores[1].fail()
    orders = await bench.node.entity("orders")
    assert orders["availability"] == "Limited"
    assert [f["state"] for f in orders["fragments"]] == ["up", "down", "up"] * 2
    stores = (await bench.node.stores())["stores"]
    assert [s["state"] for s in stores] == ["up", "down", "up"]
    assert [s["fragments"] for s in stores] == [3, 2, 2]
    bench.bus.stores[0].fail()
    listed = {e["name"]: e["availability"] for e in (await bench.node.entities())["entities"]}
    assert listed == {"orders": "Limited", "single": "Unavailable"}
    bench.bus.stores[0].heal()
    bench.bus.stores[1].heal()
    listed = {e["name"]: e["availability"] for e in (await bench.node.entities())["entities"]}
    assert listed == {"orders": "Available", "single": "Available"}


async def test_a_worker_that_does_not_answer_takes_its_fragments_with_it() -> None:
    bench = Bench(far_store=True)
    bench.queue("orders", 3)
    bench.send("orders", [plain(n) for n in range(3)])
    shown = await bench.node.entity("orders")
    assert shown["availability"] == "Limited"
    silent = shown["fragments"][2]
    assert (silent["worker"], silent["state"], silent["active"]) == (None, "down", None)
    assert shown["totals"]["active"] == 2
    assert (await bench.node.stores())["stores"][2]["state"] == "down"


async def test_a_fragment_says_which_worker_runs_it() -> None:
    bench = Bench(far_store=True)
    bench.queue("orders", 3)

    class Far:
        numbers = (4,)

        async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
            counts = dict.fromkeys((*COUNTS, "bytes"), 0) | {"active": 5, "locked": 2}
            return {str(i): {"state": "up", **counts} for i in payload["stores"]["2"]}

    bench.control.reach(Far())
    shown = await bench.node.entity("orders")
    assert [f["worker"] for f in shown["fragments"]] == [0, 0, 4]
    assert (shown["totals"]["active"], shown["totals"]["locked"]) == (5, 2)
    assert shown["availability"] == "Available"


async def test_a_missing_entity_is_an_error() -> None:
    with pytest.raises(EntityNotFound):
        await Bench().node.entity("nope")


def test_availability_is_a_word() -> None:
    assert availability(["up", "degraded"]) == "Available"
    assert availability(["up", "down"]) == "Limited"
    assert availability(["down"]) == "Unavailable"


async def test_purge_deletes_what_waits_and_tells_until_when() -> None:
    bench = Bench()
    bench.queue("orders", 3)
    bench.send("orders", [keyed(n, f"key-{n}") for n in range(20)])
    loop = asyncio.get_running_loop()
    purging = loop.create_task(bench.node.purge("orders", "active", None, None))
    while not purging.done():
        await asyncio.sleep(0)
        bench.bus.scheduler.run()
    answer = purging.result()
    assert (answer["purged"], answer["finished"], answer["subqueue"]) == (20, True, "active")
    assert answer["before"].endswith("+00:00")
    assert (await bench.node.entity("orders"))["totals"]["active"] == 0


# --- who may ask ------------------------------------------------------------------------------


def test_a_token_for_the_namespace_or_for_the_path_is_welcome() -> None:
    bench = Bench()
    for resource in ("http://bus/", "sb://elsewhere", "http://bus/$partibus", f"http://bus{PATH}"):
        bench.node.authorize(bench.token(resource), PATH)


@pytest.mark.parametrize(
    "token",
    [
        lambda bench: None,
        lambda bench: "",
        lambda bench: "Bearer abc",
        lambda bench: bench.token(key="wrong"),
        lambda bench: bench.token(expires_at=1),
        lambda bench: bench.token("http://bus/orders"),
        lambda bench: bench.token(policy="Reader", key="reader-key"),
        lambda bench: bench.token("http://bus/orders", policy="Own", key="own-key"),
        lambda bench: bench.token(policy="Own", key="own-key"),
    ],
)
def test_anything_less_than_manage_on_the_namespace_is_not(
    token: Callable[[Bench], str | None],
) -> None:
    bench = Bench()
    bench.queue("orders")
    everything = Rights.SEND | Rights.LISTEN | Rights.MANAGE
    bench.bus.catalog.put_policy(
        "", AccessPolicy("Reader", "reader-key", "second", Rights.SEND | Rights.LISTEN)
    )
    bench.bus.catalog.put_policy("orders", AccessPolicy("Own", "own-key", "second", everything))
    with pytest.raises(Unauthorized):
        bench.node.authorize(token(bench), PATH)


def test_a_token_that_was_valid_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    token = bench.token()
    bench.node.authorize(token, PATH)
    monkeypatch.delattr("partibus.control.access.sas.parse_token")
    assert bench.node.authorize(token, PATH) == ROOT_POLICY_NAME


@pytest.mark.rule("SAS-7")
@pytest.mark.parametrize(
    "change",
    [
        lambda bench: bench.bus.clock.advance_ms(61_000),
        lambda bench: bench.bus.catalog.delete_policy("", "Operator"),
        lambda bench: bench.bus.catalog.put_policy("", operator(key="another")),
        lambda bench: bench.bus.catalog.put_policy("", operator(Rights.SEND | Rights.LISTEN)),
    ],
)
def test_a_token_that_was_valid_ends_with_its_time_its_policy_and_its_key(
    change: Callable[[Bench], object],
) -> None:
    bench = Bench()
    bench.bus.catalog.put_policy("", operator())
    token = bench.token(policy="Operator", key="operator-key")
    assert bench.node.authorize(token, PATH) == "Operator"
    change(bench)
    with pytest.raises(Unauthorized):
        bench.node.authorize(token, PATH)


def test_a_token_that_was_valid_for_one_path_is_not_for_another() -> None:
    bench = Bench()
    token = bench.token(f"http://bus{PATH}")
    bench.node.authorize(token, PATH)
    with pytest.raises(Unauthorized):
        bench.node.authorize(token, "/$partibus/stores")


def operator(
    rights: Rights = Rights.SEND | Rights.LISTEN | Rights.MANAGE, key: str = "operator-key"
) -> AccessPolicy:
    return AccessPolicy("Operator", key, "second", rights)


async def test_a_page_of_entities_is_filtered_ordered_and_cut() -> None:
    bench = Bench()
    for path in ("beta", "alpha", "gamma"):
        bench.queue(path)
    bench.send("gamma", [plain(1), plain(2)])
    bench.send("beta", [plain(1)])

    async def names(**query: str) -> list[str]:
        return [row["name"] for row in (await bench.node.page(query))["entities"]]

    assert await names(top="2") == ["alpha", "beta"]
    assert await names(skip="2") == ["gamma"]
    assert await names(filter="AM") == ["gamma"]
    assert await names(sort="active") == ["gamma", "beta", "alpha"]
    assert await names(state="waiting") == ["beta", "gamma"]
    assert await names(state="empty") == ["alpha"]
    assert await names(state="unavailable") == []
    assert (await bench.node.page({"top": "1"}))["count"] == 3
    for wrong in ({"sort": "age"}, {"top": "9999"}, {"state": "odd"}, {"more": "1"}):
        with pytest.raises(ArgumentError):
            await bench.node.page(wrong)
