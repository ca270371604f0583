"""The stock JavaScript client on queues that detect duplicates."""

from typing import Any

import pytest

from conformance.duplicates.namespace import PARTITIONS, Queues
from conformance.partitioning.partitions import partition_of, partition_of_key
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../duplicates/js/duplicates.mjs"


def result(server: ServerProcess, name: str, queue: str) -> Any:
    return scenario(SCRIPT, name, connection=server.connection_string, queue=queue)


@pytest.mark.rule("DUP-1", "DUP-2", "SEQ-3")
def test_duplicates_are_accepted_and_dropped(server: ServerProcess, queue: str) -> None:
    found = result(server, "send", queue)
    assert [(m["messageId"], m["body"], m["number"]) for m in found] == [
        ("a", 1, "1"),
        ("b", 3, "2"),
        ("c", 6, "3"),
    ]


@pytest.mark.rule("DUP-5")
def test_completing_a_message_does_not_clear_its_id(server: ServerProcess, queue: str) -> None:
    assert [m["body"] for m in result(server, "complete", queue)] == [3]


@pytest.mark.rule("DUP-6", "SCH-9")
def test_scheduled_and_sent_messages_share_the_history(server: ServerProcess, queue: str) -> None:
    outcome = result(server, "schedule", queue)
    useless, number = outcome["numbers"]
    left = outcome["left"]
    assert [(m["messageId"], m["body"]) for m in left] == [("a", 1), ("b", 3)]
    assert number == left[1]["number"]
    assert useless not in {m["number"] for m in left}
    assert outcome["code"] == "MessageNotFound"


@pytest.mark.rule("DUP-3", "SEED-35")
def test_in_a_partitioned_queue_the_key_belongs_to_the_identity(
    server: ServerProcess, queues: Queues
) -> None:
    found = result(server, "keys", queues.fresh("parted"))
    assert sorted(m["body"] for m in found) == ["green", "none", "red"]
    places = {m["body"]: partition_of(int(m["number"])) for m in found}
    assert places == {
        "red": partition_of_key("red", PARTITIONS),
        "green": partition_of_key("green", PARTITIONS),
        "none": partition_of_key("a", PARTITIONS),
    }
