"""The limits on the namespace and on properties, as the administration refuses what is beyond."""

from pathlib import Path

import pytest

from support.json_admin import JsonAdmin, Refused
from support.server import ServerProcess


def refused(status: int, condition: str) -> "pytest.RaisesContext[Refused]":
    return pytest.raises(Refused, check=lambda e: (e.status, e.condition) == (status, condition))


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"lock_duration": "PT10S"}, {"lock_duration": "PT11S"}),
        ({"max_delivery_count": 1}, {"max_delivery_count": 4}),
        ({"max_size_in_megabytes": 7}, {"max_size_in_megabytes": 2048}),
        ({"max_message_size_in_kilobytes": 4}, {"max_message_size_in_kilobytes": 5}),
        ({"auto_delete_on_idle": "PT1M"}, {"auto_delete_on_idle": "PT59S"}),
    ],
)
def test_properties(admin: JsonAdmin, good: dict[str, object], bad: dict[str, object]) -> None:
    with refused(400, "com.microsoft:argument-error"):
        admin.create("beyond", **bad)
    admin.create("within", **good)
    admin.delete("within")


def test_the_vendors_defaults_are_moved_into_the_limits(admin: JsonAdmin, queue: str) -> None:
    shown = admin.get(queue)["properties"]
    assert (shown["lock_duration"], shown["max_delivery_count"]) == ("PT10S", 3)


@pytest.mark.rule("QTA-14")
def test_policies(admin: JsonAdmin, queue: str) -> None:
    for number in range(2):
        admin.put_policy(f"policy-{number}", ["Send"], queue)
    with refused(403, "amqp:resource-limit-exceeded"):
        admin.put_policy("one-more", ["Send"], queue)
    admin.put_policy("policy-0", ["Listen"], queue)


@pytest.mark.rule("QTA-2", "QTA-11")
def test_entities(admin: JsonAdmin) -> None:
    with refused(403, "amqp:resource-limit-exceeded"):
        admin.create("topic/Subscriptions/three", "subscription")
    made = []
    with refused(403, "amqp:resource-limit-exceeded"):
        for number in range(100):
            admin.create(f"more-{number}")
            made.append(f"more-{number}")
    assert made
    for name in made:
        admin.delete(name)


def test_a_limit_that_is_lowered_leaves_what_exists(tmp_path: Path) -> None:
    """A server starts with what it has, and refuses only what is new."""
    config = tmp_path / "namespace.toml"
    entities = '[[queue]]\nname = "a"\nlock_duration = "PT4M"\n[[queue]]\nname = "b"\n'
    config.write_text(entities, encoding="utf-8")
    server = ServerProcess(tmp_path, config)
    with server:
        JsonAdmin(server).create("c", lock_duration="PT3M")
    config.write_text('[limits]\nentities_max = 1\nlock_duration_max = "PT1M"\n', encoding="utf-8")
    with server:
        admin = JsonAdmin(server)
        assert admin.get("c")["properties"]["lock_duration"] == "PT3M"
        with refused(403, "amqp:resource-limit-exceeded"):
            admin.create("d")
        with refused(400, "com.microsoft:argument-error"):
            admin.update("c", lock_duration="PT2M")
        admin.update("c", lock_duration="PT1M")
