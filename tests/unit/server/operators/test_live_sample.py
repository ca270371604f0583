"""The live picture: what came and left, out of counters that are there anyway."""

import asyncio
from typing import Any

from partibus.cluster.control_hub import ControlHub
from partibus.domain.entity import QueueSpec
from partibus.server.operators.live_feed import LiveFeed
from partibus.server.operators.live_sample import AGE_MS_MAX, BUSY_MS, LiveSample
from partibus.testing.bus import BusBench
from support.gateway.messages import plain


class Watch:
    """A bus of two stores, its sample and its feed."""

    def __init__(self) -> None:
        self.bus = BusBench(stores=2)
        self.machines: dict[int, Any] = {}
        brokers = dict(enumerate(self.bus.brokers))
        self.sample = LiveSample(brokers, self.machines, self.bus.catalog, self.bus.gateway)
        self.control = ControlHub()
        self.sample.register(self.control)
        self.feed = LiveFeed(self.bus.catalog, self.control, 2)

    def queue(self, path: str) -> None:
        for fragment in self.bus.queue(path, QueueSpec()):
            self.machines[fragment.fragment_id] = fragment.machine

    def look(self, wait_ms: int = AGE_MS_MAX + 1) -> dict[str, Any]:
        self.bus.scheduler.advance_ms(wait_ms)
        return self.sample.answer({})


def send(watch: Watch, path: str, count: int) -> None:
    client = watch.bus.client()
    client.send(client.attach(path, sends=True), [plain(1)] * count)


def test_what_came_is_counted_and_busy_for_a_while() -> None:
    watch = Watch()
    watch.queue("orders")
    watch.queue("idle")
    assert watch.look()["busy"] == {}
    send(watch, "orders", 3)
    told = watch.look()
    assert (told["arrived"], told["left"], told["totals"][0]) == (3, 0, 3)
    ((_, row),) = told["busy"].items()
    assert row[:3] == [3, 0, 3]
    assert watch.look(BUSY_MS + 1)["totals"][0] == 3
    assert watch.look(BUSY_MS + 1)["busy"] == {}


def test_who_asks_again_at_once_hears_the_same() -> None:
    watch = Watch()
    watch.queue("orders")
    told = watch.look()
    send(watch, "orders", 1)
    assert watch.sample.answer({}) is told
    assert watch.look()["arrived"] == 1


async def test_a_frame_has_rates_and_what_a_store_took() -> None:
    watch = Watch()
    watch.queue("orders")
    watch.look()
    first = watch.feed._made(await watch.feed._ask())
    assert first["rates"] == {"in": 0.0, "out": 0.0}
    send(watch, "orders", 5)
    watch.bus.scheduler.advance_ms(1_000)
    second = watch.feed._made(await watch.feed._ask())
    assert second["rates"]["in"] == 5.0
    assert [entity["name"] for entity in second["entities"]] == ["orders"]
    assert [worker["is_up"] for worker in second["workers"]] == [True]
    silent = watch.feed._made({})
    assert [store["state"] for store in silent["stores"]] == ["down", "down"]
    assert sorted(n for store in silent["stores"] for n in store["lost_entities"]) == ["orders"]


async def test_all_readers_get_the_same_frame() -> None:
    watch = Watch()
    first, second = watch.feed.frames(), watch.feed.frames()
    assert await anext(first) is await anext(second)
    await first.aclose()  # type: ignore[attr-defined]  # a generator
    await second.aclose()  # type: ignore[attr-defined]


async def test_who_looks_again_does_not_get_the_frame_of_long_ago() -> None:
    watch = Watch()
    reader = watch.feed.frames()
    old = await anext(reader)
    await reader.aclose()  # type: ignore[attr-defined]  # a generator
    again = watch.feed.frames()
    assert await anext(again) is not old
    await again.aclose()  # type: ignore[attr-defined]


async def test_readers_that_wait_for_a_frame_end_with_the_server() -> None:
    watch = Watch()
    readers = [watch.feed.frames() for _ in range(3)]
    for reader in readers:
        await anext(reader)
    waiting = [asyncio.ensure_future(anext(reader, None)) for reader in readers]
    await asyncio.sleep(0)
    watch.feed.close()
    assert await asyncio.gather(*waiting) == [None] * 3
