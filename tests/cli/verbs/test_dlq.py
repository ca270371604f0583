"""`partibus dlq`: seeing dead letters, sending them again, deleting them."""

import asyncio
import uuid

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusSubQueue

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue
from partibus.cli.place import find_place
from partibus.client.messages.pacing import Pacer
from partibus.client.messages.resubmission import Resubmission
from support.receiving import collect


def bury(partibus: Partibus, queue: str, count: int, reason: str) -> None:
    partibus(
        "send", queue, "{n}", "--count", str(count), "-p", "kind:int=7", "--message-id", "m{n}"
    )
    flags = ("--settle", "dead-letter", "--reason", reason, "--description", f"about {reason}")
    partibus("receive", queue, "--all", *flags)


def test_entities_with_dead_letters_are_listed(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 2, "bad")
    listed = partibus("dlq", "list", "--json").json["entities"]
    assert {"entity": queue, "dead_letters": 2} in listed
    assert all(row["dead_letters"] for row in listed)
    assert queue in partibus("dlq", "list").out


def test_reasons_are_counted(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 3, "bad")
    bury(partibus, queue, 1, "worse")
    reasons = partibus("dlq", "list", queue, "--json").json["reasons"]
    assert [(r["reason"], r["count"], r["description"]) for r in reasons] == [
        ("bad", 3, "about bad"),
        ("worse", 1, "about worse"),
    ]
    text = partibus("dlq", "list", queue).out
    assert text.splitlines()[0].split() == ["count", "reason", "oldest", "newest", "description"]
    assert len(partibus("dlq", "peek", queue, "--max", "2").lines) == 2


def test_they_are_sent_again_as_they_were(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 120, "bad")
    dry = partibus("dlq", "resubmit", queue, "--dry-run")
    assert dry.out == f"{queue}: 120 dead letters would be sent to {queue}\n"
    done = partibus("dlq", "resubmit", queue, "--yes", "--json").json
    assert done == {"entity": queue, "to": queue, "found": 120, "resubmitted": 120}
    again = partibus("receive", queue, "--all").lines
    assert [m["body"] for m in again] == [str(n) for n in range(120)]
    assert [m["message_id"] for m in again] == [f"m{n}" for n in range(120)]
    assert all(m["properties"] == {"kind": 7} for m in again)
    assert all("dead_letter_reason" not in m for m in again)
    assert partibus("dlq", "list", queue).out == f"{queue} has no dead letters.\n"


def test_only_some_and_elsewhere(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue, other = make_queue(), make_queue()
    bury(partibus, queue, 3, "bad")
    bury(partibus, queue, 2, "worse")
    flags = ("--reason", "WORSE", "--to", other, "--new-id", "--yes")
    assert (
        partibus("dlq", "resubmit", queue, *flags).out
        == f"{queue}: 2 of 2 dead letters sent to {other}\n"
    )
    ids = [m["message_id"] for m in partibus("peek", other).lines]
    assert len(ids) == 2
    assert all(uuid.UUID(message_id) for message_id in ids)
    partibus("dlq", "resubmit", queue, "--max", "1", "--yes")
    assert len(partibus("peek", queue).lines) == 1
    assert [r["count"] for r in partibus("dlq", "list", queue, "--json").json["reasons"]] == [2]


def test_what_dies_meanwhile_does_not_go_round(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 5, "bad")

    async def resubmitted() -> int:
        work = Resubmission(dead_letters=f"{queue}/$DeadLetterQueue", destination=queue)
        place = find_place(partibus.environment()["PARTIBUS_CONNECTION_STRING"])
        async with place.open() as bus:
            assert await work.choose(bus) == 5
            await asyncio.to_thread(partibus.process, "send", queue, "late")
            flags = ("--settle", "dead-letter", "--reason", "late")
            await asyncio.to_thread(partibus.process, "receive", queue, *flags)
            return await work.run(bus, Pacer(None), lambda done: None)

    assert asyncio.run(resubmitted()) == 5
    left = partibus("dlq", "list", queue, "--json").json["reasons"]
    assert [(row["reason"], row["count"]) for row in left] == [("late", 1)]
    assert partibus("entity", "show", queue, "--json").json["totals"]["locked"] == 0


def test_what_somebody_else_holds_is_told(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    bury(partibus, queue, 2, "bad")
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        collect(receiver, 1)
        done = partibus.try_("dlq", "resubmit", queue, "--yes")
    assert done.code == 1
    assert done.out == f"{queue}: 1 of 2 dead letters sent to {queue}\n"
    assert "1 could not be resent" in done.err


def test_duplicates_are_not_lost_unawares(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--duplicate-detection")
    bury(partibus, queue, 2, "bad")
    refused = partibus.try_("dlq", "resubmit", queue, "--yes")
    assert refused.code == 2
    assert "--new-id" in refused.err
    partibus("dlq", "resubmit", queue, "--yes", "--new-id")
    assert len(partibus("peek", queue).lines) == 2


def test_sessions_survive(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--sessions")
    partibus("send", queue, "x", "--session-id", "s")
    partibus("receive", queue, "--session", "s", "--settle", "dead-letter")
    partibus("dlq", "resubmit", queue, "--yes")
    assert [m["body"] for m in partibus("receive", queue, "--session", "s").lines] == ["x"]


def test_nobody_is_asked_without_a_terminal(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 1, "bad")
    for verb in ("resubmit", "purge"):
        done = partibus.process("dlq", verb, queue)
        assert done.code == 2
        assert "give --yes" in done.err


def test_they_are_deleted(partibus: Partibus, queue: str) -> None:
    bury(partibus, queue, 1, "bad")
    assert partibus("dlq", "purge", queue, "-y").out == f"{queue}: 1 dead letter deleted\n"
    assert partibus("dlq", "purge", queue, "-y", "--json").json["purged"] == 0


@pytest.mark.parametrize("verb", ["list", "peek", "resubmit", "purge"])
def test_a_queue_that_is_not_there(partibus: Partibus, verb: str) -> None:
    flags = ("--yes",) if verb in ("resubmit", "purge") else ()
    assert partibus.try_("dlq", verb, "no-such-queue", *flags).code == 4
