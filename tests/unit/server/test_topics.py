"""Topics of a node whose namespace changes while it runs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from partibus.domain.address import parse_address
from partibus.domain.clock import SystemClock
from partibus.domain.entity import FilterType, RuleSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import BusError, EntityNotFound
from partibus.fragment.commands import Enqueue
from partibus.message.envelope import to_stored
from partibus.server.config import ServeSettings
from partibus.server.node import Node
from support.gateway.messages import plain

PARTED = TopicSpec(enable_partitioning=True, fragments=4)


class Sending:
    """The port of one send, as a future."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.done.set_result(None)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.done.set_exception(error)


@pytest.fixture(params=[TopicSpec(), PARTED], ids=["whole", "parted"])
def topic(request: pytest.FixtureRequest) -> TopicSpec:
    spec: TopicSpec = request.param
    return spec


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Node]:
    node = Node(ServeSettings(data=directory, stores=3), SystemClock())
    await node.start()
    yield node
    await node.stop()


async def send(node: Node) -> None:
    """One message to every fragment of the topic."""
    for fragment in node.gateway.namespace.resolve(parse_address("t")).fragments:
        port = Sending()
        message = to_stored(plain(1))
        fragment.submit(Enqueue(port, [message], [1], len(message.body)))
        await port.done


async def active(node: Node, name: str) -> int:
    shown = await node.administration.entity(f"t/Subscriptions/{name}")
    count: int = shown["totals"]["active"]
    return count


@pytest.mark.rule("ENT-3", "FLT-5", "FLT-10", "PRP-3")
async def test_subscriptions_and_rules_come_and_go(topic: TopicSpec, tmp_path: Path) -> None:
    count = topic.fragments
    async with running(tmp_path) as node:
        await node.live.create("t", topic)
        await send(node)
        await node.live.create("t/Subscriptions/a", SubscriptionSpec())
        await send(node)
        made = await node.live.create("t/Subscriptions/b", SubscriptionSpec())
        await send(node)
        assert (await active(node, "a"), await active(node, "b")) == (2 * count, count)
        assert isinstance(made.spec, SubscriptionSpec)
        never = replace(made.spec, rules=(RuleSpec(filter_type=FilterType.FALSE),))
        await node.live.update("t/Subscriptions/b", never)
        await send(node)
        assert (await active(node, "a"), await active(node, "b")) == (3 * count, count)
        await node.live.delete("t/Subscriptions/b")
        with pytest.raises(EntityNotFound):
            node.gateway.namespace.resolve(parse_address("t/Subscriptions/b"))
        await send(node)
        assert await byte_count(node, "t") == await byte_count(node, "t/Subscriptions/a") > 0
    async with running(tmp_path) as node:
        assert await active(node, "a") == 4 * count
        await node.live.delete("t")
        assert node.catalog.entities() == ()
        while sum(  # noqa: ASYNC110
            s["live_bytes"] for s in (await node.administration.stores())["stores"]
        ):
            # The room is given back when the log says so, which no event tells.
            await asyncio.sleep(0)
        await node.live.create("t", topic)
        await send(node)


async def byte_count(node: Node, name: str) -> int:
    shown = await node.administration.entity(name)
    count: int = shown["totals"]["bytes"]
    return count
