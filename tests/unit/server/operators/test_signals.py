"""A scrape contains what is true now, made of what has changed since the last one."""

from typing import Any

from partibus.cluster.control_hub import ControlHub
from partibus.domain.entity import QueueSpec
from partibus.server.operators.changed_fragments import ChangedFragments, ChangeNumbers
from partibus.server.operators.inspection import Inspection
from partibus.server.operators.signals import OwnSignals, SignalService
from partibus.testing.bus import BusBench
from support.gateway.messages import plain


class Counted:
    """A bus, and what is counted there."""

    def __init__(self, entities_max: int = 10) -> None:
        self.bus = BusBench(stores=1)
        self.machines: dict[int, Any] = {}
        brokers = dict(enumerate(self.bus.brokers))
        control = ControlHub()
        changed = ChangedFragments(ChangeNumbers(self.machines, self.bus.gateway.monotonic_ms))
        inspection = Inspection(brokers, self.machines)
        signals = OwnSignals(self.bus.gateway, brokers, self.machines, inspection, changed)
        signals.register(control)
        self.service = SignalService(self.bus.catalog, control, entities_max)

    def queue(self, path: str) -> None:
        for fragment in self.bus.queue(path, QueueSpec()):
            self.machines[fragment.fragment_id] = fragment.machine

    def send(self, path: str, count: int) -> None:
        client = self.bus.client()
        client.send(client.attach(path, sends=True), [plain(1)] * count)

    async def entities(self) -> dict[str, Any]:
        signals = await self.service.gather()
        return {entity["name"]: entity for entity in signals["entities"]}


async def test_only_what_changed_is_made_again() -> None:
    counted = Counted()
    counted.queue("busy")
    counted.queue("idle")
    before = await counted.entities()
    counted.send("busy", 3)
    after = await counted.entities()
    assert after["busy"]["counts"]["active"] == after["busy"]["counts"]["incoming"] == 3
    assert after["idle"] is before["idle"]
    assert before["busy"]["counts"]["active"] == 0


async def test_entities_that_come_and_fragments_that_leave_are_noticed() -> None:
    counted = Counted()
    counted.queue("first")
    await counted.entities()
    counted.queue("second")
    counted.send("second", 1)
    entities = await counted.entities()
    assert entities["second"]["counts"]["active"] == 1
    assert (entities["first"]["available"], entities["first"]["fragments"][0]["worker"]) == (1, 0)
    counted.machines.clear()
    entities = await counted.entities()
    assert (entities["first"]["available"], entities["first"]["fragments"][0]["worker"]) == (
        0,
        None,
    )
    assert entities["second"]["fragments"][0]["counts"] is None


async def test_what_is_beyond_the_cap_is_counted_anew_each_time() -> None:
    counted = Counted(entities_max=1)
    for path in ("shown", "a", "b"):
        counted.queue(path)
    await counted.entities()
    counted.send("a", 1)
    counted.send("b", 2)
    signals = await counted.service.gather()
    assert [entity["name"] for entity in signals["entities"]] == ["shown", "(other)"]
    assert signals["aggregated"] == 2
    assert signals["entities"][1]["counts"]["active"] == 3
