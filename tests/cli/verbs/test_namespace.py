"""`partibus namespace`: out of one server, into another, and nothing changed on the way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Partibus
from support.server import ServerProcess

NAMESPACE = """
[[queue]]
name = "orders"
max_delivery_count = 3
forward_dead_lettered_messages_to = "graveyard"

[[queue]]
name = "graveyard"
user_metadata = "\\"quoted\\" & <marked>"

[[queue]]
name = "parted"
enable_partitioning = true
partition_count = 4

[[topic]]
name = "news"
default_message_time_to_live = "PT1H"

[[topic.subscription]]
name = "everything"

[[topic.subscription]]
name = "some"
lock_duration = "PT30S"
forward_to = "orders"

[[topic.subscription.rule]]
name = "red"
action = "SET a = 'b'"

[topic.subscription.rule.correlation_filter]
label = "red"
properties = { n = 5, x = "5", ok = true, at = 2020-07-05T11:12:13Z, for = { duration = "P1D" } }

[[topic.subscription.rule]]
name = "big"
sql_filter = "amount > 100"
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Partibus, Partibus]]:
    """One that has the namespace, and one that has nothing."""
    home = tmp_path_factory.mktemp("namespace")
    (home / "full.toml").write_text(NAMESPACE, encoding="utf-8")
    (home / "none.toml").write_text("", encoding="utf-8")
    for name in ("a", "b"):
        (home / name).mkdir()
    with (
        ServerProcess(home / "a", home / "full.toml") as full,
        ServerProcess(home / "b", home / "none.toml") as empty,
    ):
        yield Partibus(full.connection_string, home), Partibus(empty.connection_string, home)


def test_there_and_back(servers: tuple[Partibus, Partibus], tmp_path: Path) -> None:
    full, empty = servers
    file = tmp_path / "namespace.toml"
    assert full("namespace", "export", "-o", str(file)).out == f"{file}: 3 queues, 1 topics\n"
    text = file.read_text(encoding="utf-8")
    assert "partition_count = 4" in text
    assert "SharedAccess" not in text
    assert full("config", "check", str(file)).code == 0
    dry = empty("namespace", "import", str(file), "--dry-run", "--json").json
    assert {entity["result"] for entity in dry["entities"]} == {"created"}
    assert empty("queue", "list", "--json").json["queues"] == []
    empty("namespace", "import", str(file))
    same = empty("namespace", "import", str(file), "--json").json["entities"]
    assert {entity["result"] for entity in same} == {"same"}
    tables = json.loads(full("namespace", "export", "--format", "json").out)
    copied = json.loads(empty("namespace", "export", "--format", "json").out)
    for queue in (*tables["queue"], *copied["queue"]):
        queue.pop("partition_count", None)
    assert copied == tables


def test_differences_are_told_and_changed_on_demand(
    servers: tuple[Partibus, Partibus], tmp_path: Path
) -> None:
    full, _ = servers
    file = tmp_path / "changed.json"
    full("namespace", "export", "-o", str(file))
    tables = json.loads(file.read_text(encoding="utf-8"))
    orders = next(queue for queue in tables["queue"] if queue["name"] == "orders")
    orders["max_delivery_count"] = 9
    some = next(s for s in tables["topic"][0]["subscription"] if s["name"] == "some")
    big = next(rule for rule in some["rule"] if "sql_filter" in rule)
    big["sql_filter"] = "amount > 200"
    file.write_text(json.dumps(tables), encoding="utf-8")
    told = full.try_("namespace", "import", str(file), "--json")
    assert told.code == 1
    assert "give --update" in told.err
    differing = {e["path"]: e["differences"] for e in told.json["entities"] if e["differences"]}
    assert differing == {
        "orders": ["max_delivery_count"],
        "news/Subscriptions/some": ["rule big"],
    }
    table = full("namespace", "import", str(file), "--update").out
    assert "updated" in table
    assert full("queue", "show", "orders", "--json").json["max_delivery_count"] == 9
    assert full("rule", "show", "news", "some", "big").out == "big: amount > 200\n"
    assert full("namespace", "import", str(file)).code == 0


def test_files_that_cannot_be_used(servers: tuple[Partibus, Partibus], tmp_path: Path) -> None:
    full, _ = servers
    assert full.try_("namespace", "import", str(tmp_path / "none.toml")).code == 2
    (tmp_path / "odd.toml").write_text('[[queue]]\nname = "a"\nlock_durration = "PT1S"\n', "utf-8")
    odd = full.try_("namespace", "import", str(tmp_path / "odd.toml"))
    assert odd.code == 2
    assert "did you mean 'lock_duration'?" in odd.err
    assert full.try_("namespace", "export", "-o", str(tmp_path / "no" / "dir.toml")).code == 1


def test_the_emulators_file_is_taken(servers: tuple[Partibus, Partibus], tmp_path: Path) -> None:
    full, _ = servers
    config = {
        "UserConfig": {
            "Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "from-emulator"}]}]
        }
    }
    (tmp_path / "Config.json").write_text(json.dumps(config), encoding="utf-8")
    full("namespace", "import", str(tmp_path / "Config.json"))
    assert full("queue", "show", "from-emulator").code == 0
