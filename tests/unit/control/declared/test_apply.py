"""A declared namespace meeting an existing one."""

from dataclasses import replace
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.definitions import parse_toml
from partibus.domain.entity import QueueSpec, RuleSpec, SubscriptionSpec
from partibus.domain.errors import ConfigError
from partibus.domain.limits import EMULATOR, SELFHOST, Profile

FILE = Path("bus.toml")


def apply(catalog: Catalog, text: str) -> None:
    apply_definitions(catalog, parse_toml(FILE, text))


def complaint(text: str, catalog: Catalog | None = None, profile: Profile = SELFHOST) -> str:
    with pytest.raises(ConfigError) as caught:
        apply(catalog or Catalog(profile=profile), text)
    return caught.value.text


TWO = '[[queue]]\nname = "a"\n[[queue]]\nname = "b"\n'


def test_missing_entities_are_created_and_the_rest_is_left_alone() -> None:
    catalog = Catalog()
    other = catalog.create("other", QueueSpec(max_delivery_count=7))
    apply(catalog, TWO)
    made = [catalog.entity("a"), catalog.entity("b")]
    apply(catalog, TWO)
    assert [catalog.lookup(path) for path in ("a", "b", "other")] == [*made, other]
    assert catalog.lookup("other") is other and catalog.lookup("a") is made[0]


def test_mutable_differences_are_updated() -> None:
    catalog = Catalog()
    apply(catalog, TWO)
    before = catalog.entity("a")
    apply(catalog, TWO + 'lock_duration = "PT5S"\n')
    assert catalog.entity("b").queue.lock_duration_ms == 5_000
    assert catalog.entity("a") is before


@pytest.mark.rule("PRP-2")
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("requires_session = true", "requires_session"),
        ("requires_duplicate_detection = true", "requires_duplicate_detection"),
        ("enable_partitioning = true", "enable_partitioning"),
    ],
)
def test_a_fixed_property_cannot_be_changed_by_the_file(line: str, name: str) -> None:
    catalog = Catalog()
    apply(catalog, TWO)
    before = catalog.entities()
    text = TWO.replace('"a"\n', '"a"\nmax_delivery_count = 1\n') + line + "\n"
    assert complaint(text, catalog) == (
        f"bus.toml:6: queue[1].{name}: it is false and cannot become true: it is fixed when the "
        "entity is created. Restore the value, or delete the entity and create it again."
    )
    assert catalog.entities() == before


def test_a_changed_partition_count_is_told_at_its_line() -> None:
    catalog = Catalog()
    text = '[[queue]]\nname = "p"\nenable_partitioning = true\npartition_count = 4\n'
    apply(catalog, text)
    assert complaint(text.replace("4", "5"), catalog).startswith(
        "bus.toml:4: queue[0].partition_count: it is 4 and cannot become 5"
    )


def test_a_queue_cannot_become_a_topic() -> None:
    catalog = Catalog()
    apply(catalog, TWO)
    assert "bus.toml:1: topic[0].kind: an entity cannot become another kind" in complaint(
        '[[topic]]\nname = "a"\n', catalog
    )


@pytest.mark.parametrize(
    ("text", "profile", "expected"),
    [
        (
            TWO + 'lock_duration = "PT0.5S"\n',
            SELFHOST,
            "bus.toml:5: queue[1].lock_duration: PT0.5S is not allowed; allowed: PT1S to P1D.",
        ),
        (
            TWO + "enable_partitioning = true\n",
            EMULATOR,
            "bus.toml:5: queue[1].enable_partitioning: the emulator profile has no partitioned",
        ),
        (
            '[[queue]]\nname = "a b"\n',
            SELFHOST,
            "bus.toml:2: queue[0].name: 'a b' may contain letters, digits",
        ),
        (
            TWO + 'forward_to = "nowhere"\n',
            SELFHOST,
            "bus.toml:5: queue[1].forward_to: there is no queue or topic named 'nowhere'",
        ),
        (
            '[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n'
            '[[topic.subscription.rule]]\nname = "r"\naction = "' + "x" * 1025 + '"\n',
            SELFHOST,
            "bus.toml:7: topic[0].subscription[0].rule[0].action: at most 1024 characters",
        ),
        (
            '[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n'
            '[[topic.subscription.rule]]\nname = "r"\nsql_filter = "a = 1 AND"\n',
            SELFHOST,
            "bus.toml:7: topic[0].subscription[0].rule[0].sql_filter: The expression ends too "
            "early",
        ),
        (
            TWO + '[[queue.policy]]\nname = "p"\nkey = "k"\nrights = ["Manage"]\n',
            SELFHOST,
            "bus.toml:5: queue[1].policy[0]: The policy 'p' has Manage, which must come with Send",
        ),
        (
            "".join(f'[[queue]]\nname = "q{n}"\n' for n in range(51)),
            EMULATOR,
            "bus.toml:101: queue[50]: The namespace has 50 queues and topics",
        ),
    ],
)
def test_refusals_name_their_place(text: str, profile: Profile, expected: str) -> None:
    assert complaint(text, profile=profile).startswith(expected)


def test_forwards_may_point_to_what_stands_later() -> None:
    catalog = Catalog()
    apply(catalog, '[[queue]]\nname = "a"\nforward_to = "b"\n[[queue]]\nname = "b"\n')
    assert catalog.entity("a").queue.forward_to == "b"


def test_nothing_is_made_of_a_file_with_a_mistake() -> None:
    catalog = Catalog()
    complaint(TWO + "max_delivery_count = 0\n", catalog)
    assert catalog.entities() == ()


def test_policies_are_written_and_keep_their_secondary_key() -> None:
    catalog = Catalog()
    text = TWO + '[[queue.policy]]\nname = "p"\nkey = "k1"\nrights = ["Send"]\n'
    apply(catalog, text)
    first = catalog.policy("b", "p")
    assert first is not None
    assert first.primary_key == "k1"
    assert len(first.secondary_key) == 44
    apply(catalog, text.replace("k1", "k2"))
    second = catalog.policy("b", "p")
    assert second is not None
    assert (second.primary_key, second.secondary_key) == ("k2", first.secondary_key)


def test_subscription_rules_are_replaced_as_declared() -> None:
    catalog = Catalog()
    text = '[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n'
    rule = '[[topic.subscription.rule]]\nname = "r"\nsql_filter = "a = 1"\n'
    apply(catalog, text)
    apply(catalog, text + rule)
    (found,) = catalog.entity("t/Subscriptions/s").spec.rules  # type: ignore[union-attr]
    assert found.name == "r"


def test_rules_of_clients_stay_where_the_file_declares_none() -> None:
    catalog = Catalog()
    text = '[[topic]]\nname = "t"\n[[topic.subscription]]\nname = "s"\n'
    apply(catalog, text)
    path = "t/Subscriptions/s"
    spec = catalog.entity(path).spec
    assert isinstance(spec, SubscriptionSpec)
    changed = catalog.update(path, replace(spec, rules=(RuleSpec(name="mine"),)))
    apply(catalog, text)
    assert catalog.entity(path) is changed
    apply(catalog, text + "max_delivery_count = 3\n")
    spec = catalog.entity(path).spec
    assert isinstance(spec, SubscriptionSpec)
    assert ([rule.name for rule in spec.rules], spec.max_delivery_count) == (["mine"], 3)
    apply(catalog, text + '[[topic.subscription.rule]]\nname = "of the file"\n')
    spec = catalog.entity(path).spec
    assert isinstance(spec, SubscriptionSpec)
    assert [rule.name for rule in spec.rules] == ["of the file"]
