"""Entities and policies as operators write them in JSON, through the application itself."""

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import EntityKind, EntityStatus, QueueSpec
from partibus.domain.errors import ArgumentError, EntityNotFound, QuotaExceeded
from partibus.domain.limits import SELFHOST
from partibus.domain.refusal import PropertyRefused
from partibus.server.operators.namespace import NamespaceService
from partibus.testing.local_namespace import LocalNamespace


class Bench:
    def __init__(self) -> None:
        self.catalog = Catalog()
        self.service = NamespaceService(self.catalog, LocalNamespace(self.catalog))


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_properties_have_the_names_of_the_definitions_file(bench: Bench) -> None:
    shown = await bench.service.create(
        {
            "name": "orders",
            "properties": {"lock_duration": "PT30S", "enable_partitioning": True},
        }
    )
    assert (shown["name"], shown["kind"], shown["fragment_count"]) == ("orders", "queue", 16)
    spec = bench.catalog.entity("orders").queue
    assert (spec.lock_duration_ms, spec.enable_partitioning) == (30_000, True)
    changed = await bench.service.update("ORDERS", {"properties": {"status": "SendDisabled"}})
    assert changed["properties"]["status"] == "SendDisabled"
    spec = bench.catalog.entity("orders").queue
    assert (spec.status, spec.lock_duration_ms) == (EntityStatus.SEND_DISABLED, 30_000)
    assert (await bench.service.delete("orders"))["name"] == "orders"
    assert bench.catalog.lookup("orders") is None


async def test_what_is_shown_can_be_handed_in_again(bench: Bench) -> None:
    shown = await bench.service.create({"name": "q", "properties": {"max_delivery_count": 3}})
    await bench.service.delete("q")
    given = {name: v for name, v in shown["properties"].items() if v is not None}
    again = await bench.service.create({"name": "q", "properties": given})
    assert again["properties"] == shown["properties"]
    assert bench.catalog.entity("q").spec == QueueSpec(max_delivery_count=3)


async def test_topics_and_subscriptions(bench: Bench) -> None:
    await bench.service.create({"name": "t", "kind": "topic"})
    await bench.service.create({"name": "t/Subscriptions/s", "kind": "subscription"})
    assert [r.kind for r in bench.catalog.entities()] == [
        EntityKind.TOPIC,
        EntityKind.SUBSCRIPTION,
    ]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 5},
        {"name": "q", "kind": "exchange"},
        {"name": "q", "colour": "red"},
        {"name": "q", "properties": []},
        {"name": "q", "properties": {"colour": "red"}},
        {"name": "q", "properties": {"lock_duration": 30}},
        {"name": "q", "properties": {"lock_duration": "PT1H", "max_delivery_count": 0}},
    ],
)
async def test_a_wrong_form_is_explained(bench: Bench, body: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        await bench.service.create(body)
    assert bench.catalog.entities() == ()


async def test_a_wrong_property_is_named(bench: Bench) -> None:
    await bench.service.create({"name": "q"})
    with pytest.raises(PropertyRefused, match="requires_session"):
        await bench.service.update("q", {"properties": {"requires_session": True}})
    with pytest.raises(EntityNotFound):
        await bench.service.update("nope", {"properties": {}})


async def test_policies_are_made_changed_and_removed(bench: Bench) -> None:
    await bench.service.create({"name": "q"})
    made = await bench.service.put_policy("q", "sender", {"rights": ["Send"]})
    assert made["rights"] == ["Send"]
    assert len({made["primary_key"], made["secondary_key"]}) == 2
    wider = await bench.service.put_policy("q", "sender", {"rights": ["Send", "Listen"]})
    assert wider["primary_key"] == made["primary_key"], "keys that are not given stay"
    own = await bench.service.put_policy("q", "sender", {"rights": ["Send"], "primary_key": "mine"})
    assert own["primary_key"] == "mine"
    rolled = await bench.service.regenerate_key("q", "sender", {"key": "secondary"})
    assert rolled["primary_key"] == "mine"
    assert rolled["secondary_key"] != made["secondary_key"]
    assert (await bench.service.policies("q"))["policies"] == [rolled]
    assert (await bench.service.policies(""))["policies"] == []
    await bench.service.delete_policy("q", "sender")
    assert (await bench.service.policies("q"))["policies"] == []


@pytest.mark.rule("SAS-3", "QTA-14")
async def test_there_are_at_most_twelve_of_them(bench: Bench) -> None:
    await bench.service.create({"name": "q"})
    for number in range(SELFHOST.policies_per_level_max):
        await bench.service.put_policy("q", f"p{number}", {"rights": ["Send"]})
    with pytest.raises(QuotaExceeded):
        await bench.service.put_policy("q", "one-more", {"rights": ["Send"]})
    await bench.service.put_policy("", "elsewhere", {"rights": ["Send"]})


async def test_wrong_policies_are_refused(bench: Bench) -> None:
    await bench.service.create({"name": "t", "kind": "topic"})
    await bench.service.create({"name": "t/Subscriptions/s", "kind": "subscription"})
    for entity, body in (
        ("", {}),
        ("", {"rights": ["Fly"]}),
        ("", {"rights": ["Manage"]}),
        ("", {"rights": ["Send"], "primary_key": 5}),
        ("", {"rights": ["Send"], "colour": "red"}),
        ("t/Subscriptions/s", {"rights": ["Send"]}),
    ):
        with pytest.raises(ArgumentError):
            await bench.service.put_policy(entity, "p", body)
    for entity in ("", "t"):
        with pytest.raises(EntityNotFound):
            await bench.service.delete_policy(entity, "p")
        with pytest.raises(EntityNotFound):
            await bench.service.regenerate_key(entity, "p", {})
    await bench.service.put_policy("", "p", {"rights": ["Send"]})
    with pytest.raises(ArgumentError):
        await bench.service.regenerate_key("", "p", {"key": "third"})
    with pytest.raises(EntityNotFound):
        await bench.service.policies("nowhere")
