"""Entities that nobody uses, over one and several workers."""

from dataclasses import replace
from pathlib import Path

import pytest

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.address import parse_address
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import EntityNotFound, StoreUnavailable
from partibus.domain.limits import MINUTE_MS
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.transactions.commands import SILENT
from partibus.message.envelope import to_stored
from partibus.server.idle import SWEEP_MS, IdleWatch
from partibus.testing.bus import BusBench, ClientBench
from partibus.testing.local_namespace import LocalNamespace
from support.gateway.messages import in_session, plain

IDLE_MS = 5 * MINUTE_MS
FLEETING = QueueSpec(auto_delete_on_idle_ms=IDLE_MS)
WIDE = QueueSpec(auto_delete_on_idle_ms=IDLE_MS, enable_partitioning=True, fragments=4)
IN_SESSIONS = QueueSpec(auto_delete_on_idle_ms=IDLE_MS, requires_session=True)


class Far:
    """Another worker: it has some of the fragments, or does not answer."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.idle: dict[str, int] = {}

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        return self.idle


class Bench:
    """A bus with a watch over its idle entities."""

    def __init__(self) -> None:
        self.bus = BusBench(stores=2)
        self.machines: dict[int, object] = {}
        self.control = ControlHub()
        self.far = Far()
        self.control.reach(self.far)
        self.watch = IdleWatch(
            self.bus.catalog,
            LocalNamespace(self.bus.catalog),
            self.control,
            self.bus.clock,
            self.machines,  # type: ignore[arg-type]
        )

    def queue(self, path: str, spec: QueueSpec) -> None:
        for fragment in self.bus.queue(path, spec):
            self.machines[fragment.fragment_id] = fragment.machine

    async def pass_time(self, minutes: int, client: ClientBench | None = None) -> list[str]:
        gone: list[str] = []
        for _ in range(minutes):
            self.bus.scheduler.advance_ms(MINUTE_MS)
            if client is not None:
                client.engine.tick(self.bus.clock.now_ms())
                client.run()
            gone += await self.watch.sweep()
        return gone


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.rule("IDL-1")
@pytest.mark.parametrize("spec", [FLEETING, WIDE, IN_SESSIONS])
async def test_an_idle_entity_goes_with_its_messages(bench: Bench, spec: QueueSpec) -> None:
    bench.queue("q", spec)
    bench.queue("stays", QueueSpec())
    client = bench.bus.client()
    client.send(client.attach("q", sends=True), [in_session(1, "s")])
    client.send(client.attach("stays", sends=True), [plain(1)])
    live_bytes = sum(store.live_bytes for store in bench.bus.stores)
    assert await bench.pass_time(4) == []
    assert await bench.pass_time(1) == ["q"]
    assert bench.bus.catalog.lookup("q") is None
    client.run()
    assert 0 < sum(store.live_bytes for store in bench.bus.stores) < live_bytes
    assert await bench.pass_time(60) == []
    assert bench.bus.catalog.lookup("stays") is not None


@pytest.mark.rule("IDL-1")
@pytest.mark.parametrize("hours", [2, -2, 24 * 365])
async def test_a_clock_that_is_set_neither_hurries_nor_keeps_an_idle_entity(
    bench: Bench, hours: int
) -> None:
    bench.queue("q", FLEETING)
    client = bench.bus.client()
    client.send(client.attach("q", sends=True), [plain(1)])
    assert await bench.pass_time(2) == []
    bench.bus.clock.step_wall_ms(hours * 60 * MINUTE_MS)
    assert await bench.pass_time(2) == []
    assert await bench.pass_time(1) == ["q"]


@pytest.mark.rule("IDL-2")
@pytest.mark.parametrize("use", ["send", "receive", "peek", "update"])
@pytest.mark.parametrize("spec", [FLEETING, WIDE], ids=["plain", "partitioned"])
async def test_use_begins_the_time_anew(bench: Bench, use: str, spec: QueueSpec) -> None:
    bench.queue("q", spec)
    client = bench.bus.client()
    sender = client.attach("q", sends=True)
    await bench.pass_time(4)
    if use == "send":
        client.send(sender, [plain(1)])
    elif use == "receive":
        receiver = client.attach("q", sends=False)
        receiver.set_credit(1)
        client.run()
        receiver.detach()
        client.run()
    elif use == "peek":
        fragment = bench.machines[max(bench.machines)]
        _peek(bench, fragment)
    else:
        bench.bus.catalog.update("q", QueueSpec(**_changed(spec)))
    assert await bench.pass_time(4) == []
    assert await bench.pass_time(1) == ["q"]


def _changed(spec: QueueSpec) -> dict[str, object]:
    return {
        "auto_delete_on_idle_ms": spec.auto_delete_on_idle_ms,
        "enable_partitioning": spec.enable_partitioning,
        "fragments": spec.fragments,
        "max_delivery_count": 3,
    }


def _peek(bench: Bench, machine: object) -> None:
    from partibus.fragment.commands import Peek, SubQueueType
    from partibus.fragment.machine import Machine
    from partibus.testing.fragment import Ports

    assert isinstance(machine, Machine)
    (broker,) = [
        b for b in bench.bus.brokers if b._machines.get(machine.state.fragment_id) is machine
    ]
    broker.submit(machine, Peek(Ports(), SubQueueType.MAIN, 0, 1, 100))
    bench.bus.scheduler.run()


async def test_a_message_on_its_way_to_another_entity_keeps_its_own(bench: Bench) -> None:
    """What a transaction has committed is not lost because its transfer entity is idle."""
    bench.queue("q", FLEETING)
    bench.queue("there", QueueSpec())
    there = bench.bus.catalog.entity("there").fragments[0].store
    assert there != bench.bus.catalog.entity("q").fragments[0].store
    bench.bus.stores[there].fail()
    bench.bus.scheduler.run()
    message = to_stored(plain(1))
    command = Transfer(SILENT, [message], [0], len(message.body), "there")
    bench.bus.namespace.resolve(parse_address("q")).fragments[0].submit(command)
    assert await bench.pass_time(10) == []
    bench.bus.stores[there].heal()
    assert await bench.pass_time(4) == []
    assert await bench.pass_time(2) == ["q"]


@pytest.mark.rule("IDL-2")
async def test_a_receiver_that_waits_keeps_an_entity(bench: Bench) -> None:
    bench.queue("q", WIDE)
    client = bench.bus.client()
    receiver = client.attach("q", sends=False)
    receiver.set_credit(5)
    assert await bench.pass_time(20, client) == []
    receiver.detach()
    client.run()
    assert await bench.pass_time(4, client) == []
    assert await bench.pass_time(1, client) == ["q"]


@pytest.mark.rule("IDL-2")
async def test_scheduled_messages_keep_an_entity_until_they_are_due(bench: Bench) -> None:
    from partibus.fragment.commands import Enqueue
    from partibus.fragment.message import NewMessage
    from partibus.testing.fragment import Ports

    (fragment,) = bench.bus.queue("q", FLEETING)
    bench.machines[fragment.fragment_id] = fragment.machine
    due_ms = bench.bus.clock.now_ms() + 10 * MINUTE_MS
    fragment.submit(Enqueue(Ports(), [NewMessage(b"later", -1, due_ms)], [1], 5))
    assert await bench.pass_time(13) == []
    assert await bench.pass_time(1) == ["q"], "noticed last in minute nine, and five more"


async def test_all_workers_are_asked(bench: Bench) -> None:
    bench.queue("q", WIDE)
    record = bench.bus.catalog.entity("q")
    far_ids = [placement.fragment_id for placement in record.fragments if placement.store == 1]
    for number in far_ids:
        del bench.machines[number]
    bench.far.numbers = [1]
    assert await bench.pass_time(10) == [], "nobody answers for two of its fragments"
    bench.far.idle = {str(number): 10 * MINUTE_MS for number in far_ids}
    bench.far.idle[str(far_ids[0])] = MINUTE_MS
    assert await bench.pass_time(1) == [], "one of them was used a minute ago"
    bench.far.idle[str(far_ids[0])] = IDLE_MS
    assert await bench.pass_time(1) == ["q"]


async def test_a_store_that_is_down_puts_it_off(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(LocalNamespace):
        is_down = True

        async def delete(self, path: str):  # type: ignore[no-untyped-def]
            if self.is_down:
                raise StoreUnavailable
            return await super().delete(path)

    live = bench.watch.live = Refusing(bench.bus.catalog)
    bench.queue("q", FLEETING)
    assert await bench.pass_time(6) == []
    assert "cannot be deleted yet" in caplog.text
    live.is_down = False
    assert await bench.pass_time(1) == ["q"]


async def test_what_is_used_while_others_are_deleted_stays(bench: Bench) -> None:
    bench.queue("first", FLEETING)
    bench.queue("second", FLEETING)
    client = bench.bus.client()
    sender = client.attach("second", sends=True)

    class Slow(LocalNamespace):
        async def delete(self, path: str):  # type: ignore[no-untyped-def]
            client.send(sender, [plain(1)])
            return await super().delete(path)

    bench.watch.live = Slow(bench.bus.catalog)
    assert await bench.pass_time(4) == []
    bench.bus.scheduler.advance_ms(MINUTE_MS)
    assert await bench.watch.sweep() == ["first"]


async def test_idle_time_is_written_in_steps_and_only_when_it_changes(bench: Bench) -> None:
    bench.queue("q", FLEETING)
    bench.queue("used", FLEETING)
    entity_id = bench.bus.catalog.entity("q").entity_id
    written: list[dict[int, int]] = []
    put = bench.bus.catalog.put_idle_times
    bench.bus.catalog.put_idle_times = lambda times: (  # type: ignore[method-assign]
        written.append(dict(times)),  # type: ignore[func-returns-value]
        put(times),
    )[0]
    client = bench.bus.client()
    receiver = client.attach("used", sends=False)
    receiver.set_credit(1)
    client.run()
    await bench.pass_time(3)
    assert written == [{entity_id: n * SWEEP_MS} for n in (1, 2, 3)]
    assert bench.bus.catalog.idle_times() == {entity_id: 3 * SWEEP_MS}


async def test_a_topic_is_kept_by_its_subscriptions() -> None:
    bench = Bench()
    catalog = bench.bus.catalog
    topic = catalog.create("t", TopicSpec(auto_delete_on_idle_ms=IDLE_MS))
    subscription = catalog.create("t/subscriptions/s", SubscriptionSpec())
    assert bench.watch._concerned(topic) == [
        topic.fragments[0].fragment_id,
        subscription.fragments[0].fragment_id,
    ]
    with pytest.raises(EntityNotFound):
        catalog.entity("nowhere")


def test_only_the_first_worker_decides(tmp_path: Path) -> None:
    bus = BusBench()
    control = ControlHub(1)
    watch = IdleWatch(bus.catalog, LocalNamespace(bus.catalog), control, bus.clock, {})
    watch.start()
    assert watch._task is None
    watch.stop()


@pytest.mark.rule("IDL-3")
async def test_a_source_that_forwards_is_never_idle(bench: Bench) -> None:
    bench.queue("there", QueueSpec())
    bench.queue("source", replace(FLEETING, forward_to="there"))
    bench.queue("plain", FLEETING)
    assert await bench.pass_time(10) == ["plain"]
