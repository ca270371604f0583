"""`partibus peek` and `partibus tail`: looking without touching."""

import json
import signal

import pytest

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue


def test_peeked_messages_stay(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "{n}", "--count", "3")
    for _ in range(2):
        messages = partibus("peek", queue).lines
        assert [m["body"] for m in messages] == ["0", "1", "2"]
        assert all(m["delivery_count"] == 0 for m in messages)
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 3


def test_from_a_number_and_up_to_a_number(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "{n}", "--count", "250")
    assert len(partibus("peek", queue).lines) == 10
    shown = partibus("peek", queue, "--from", "100", "--max", "120").lines
    assert [m["sequence_number"] for m in shown] == list(range(100, 220))
    assert len(partibus("peek", queue, "--all").lines) == 250


def test_a_partitioned_queue_is_walked_once(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--partitioning")
    partibus("send", queue, "{n}", "--count", "300", "--partition-key", "k{n}")
    bodies = [m["body"] for m in partibus("peek", queue, "--all").lines]
    assert sorted(map(int, bodies)) == list(range(300))


def test_dead_letters_and_sessions(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--sessions")
    partibus("send", queue, "a", "--session-id", "a")
    partibus("send", queue, "b", "--session-id", "b")
    assert [m["body"] for m in partibus("peek", queue, "--session", "b").lines] == ["b"]
    partibus("receive", queue, "--session", "a", "--settle", "dead-letter")
    assert [m["body"] for m in partibus("peek", queue, "--dead-letter").lines] == ["a"]


def test_nothing_to_see(partibus: Partibus, queue: str) -> None:
    done = partibus("peek", queue)
    assert (done.out, done.err) == ("", f"partibus: there are no messages in {queue}.\n")
    assert partibus.try_("peek", "no-such-queue").code == 4
    assert partibus.try_("peek", queue, "--max", "0").code == 2


@pytest.mark.parametrize("flags", [(), ("--partitioning",)])
def test_tail_shows_what_comes(
    partibus: Partibus, make_queue: MakeQueue, flags: tuple[str, ...]
) -> None:
    queue = make_queue(*flags)
    partibus("send", queue, "old {n}", "--count", "150")
    with partibus.start("tail", queue, "--interval", "20ms", "--from-start") as process:
        assert process.stdout is not None
        old = [json.loads(process.stdout.readline())["body"] for _ in range(150)]
        partibus("send", queue, "new")
        assert json.loads(process.stdout.readline())["body"] == "new"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert len(set(old)) == 150
    assert (process.returncode, out, err) == (130, "", "")
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 151


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_the_end_of_a_queue_is_found(partibus: Partibus, queue: str, count: int) -> None:
    """Halving finds the last number; then only new messages are shown."""
    import asyncio

    from partibus.cli.place import find_place
    from partibus.client.messages.peeking import Walk

    if count:
        partibus("send", queue, "x", "--count", str(count))

    async def steps() -> tuple[int, int]:
        place = find_place(partibus.environment()["PARTIBUS_CONNECTION_STRING"])
        async with place.open() as bus:
            walk = Walk(await bus.management(queue))
            await walk.skip()
            before = len(await walk.step())
            await (await bus.sender(queue)).send(b"\x00\x53\x75\xa0\x01x")
            return before, len(await walk.step())

    assert asyncio.run(steps()) == (0, 1)
