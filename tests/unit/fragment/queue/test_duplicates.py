"""Duplicate detection in a fragment: what is dropped, when it is answered, what is remembered."""

import logging
from dataclasses import replace

import pytest

from partibus.domain.errors import QuotaExceeded, StoreUnavailable
from partibus.fragment.commands import Enqueue, Outcome, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.queue.duplicates import identity_of
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

WINDOW_MS = 600_000
SPEC = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=3, duplicate_window_ms=WINDOW_MS, path="q"
)


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


def message(
    message_id: str | None,
    body: bytes = b"x",
    scheduled_ms: int = 0,
    session_id: str | None = None,
    partition_key: str | None = None,
) -> NewMessage:
    return NewMessage(body, -1, scheduled_ms, session_id, partition_key, message_id)


def enqueue(bench: FragmentBench, *messages: NewMessage, request: int = 1) -> Enqueue:
    size = sum(len(each.body) for each in messages)
    return Enqueue(bench.ports, list(messages), [request], size)


def send(bench: FragmentBench, *messages: NewMessage) -> list[int]:
    """Send in one command; the places that were dropped."""
    bench.submit(enqueue(bench, *messages))
    return bench.ports.dropped.pop()


def failing(bench: FragmentBench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def dropped_count(bench: FragmentBench) -> int:
    return bench.state.counts().duplicates_dropped


@pytest.mark.rule("DUP-1", "SEQ-3")
def test_a_duplicate_is_confirmed_and_dropped_and_takes_no_number(bench: FragmentBench) -> None:
    assert send(bench, message("a", b"1")) == []
    assert send(bench, message("a", b"2")) == [0]
    assert send(bench, message("b", b"3")) == []
    assert bench.ports.confirmations == [1, 1, 1]
    assert [(m.sequence, m.body) for m in bench.receive(5)] == [(1, b"1"), (2, b"3")]
    assert bench.state.size_bytes == 2
    assert dropped_count(bench) == 1


@pytest.mark.rule("DUP-1", "SEQ-3")
def test_duplicates_within_one_command_are_found(bench: FragmentBench) -> None:
    bodies = [message("a", b"1"), message("b", b"2"), message("a", b"3"), message("b", b"4")]
    assert send(bench, *bodies, message("c", b"5")) == [2, 3]
    assert [(m.sequence, m.body) for m in bench.receive(9)] == [(1, b"1"), (2, b"2"), (3, b"5")]


@pytest.mark.rule("DUP-2")
def test_only_the_id_counts(bench: FragmentBench) -> None:
    send(bench, message("a", b"same"))
    assert send(bench, message("b", b"same")) == []
    assert send(bench, message("a", b"other")) == [0]


def test_messages_without_an_id_are_never_duplicates(bench: FragmentBench) -> None:
    assert send(bench, message(None), message(None)) == []
    assert len(bench.receive(5)) == 2
    assert bench.state.history.count == 0


def test_a_queue_that_does_not_detect_duplicates_keeps_no_ids() -> None:
    bench = FragmentBench(replace(SPEC, duplicate_window_ms=0))
    send(bench, message("a"))
    assert send(bench, message("a")) == []
    assert len(bench.receive(5)) == 2
    assert bench.state.history.count == 0


@pytest.mark.rule("DUP-3")
def test_an_unpartitioned_entity_goes_by_the_id_alone(bench: FragmentBench) -> None:
    send(bench, message("a", partition_key="x"))
    assert send(bench, message("a", partition_key="y")) == [0]
    assert send(bench, message("a", session_id="z")) == [0]
    assert send(bench, message("a")) == [0]


@pytest.mark.rule("DUP-3")
def test_a_partitioned_entity_goes_by_the_id_and_the_partition_key() -> None:
    bench = FragmentBench(replace(SPEC, is_partitioned=True))
    assert send(bench, message("a", partition_key="x")) == []
    assert send(bench, message("a", partition_key="y")) == []
    assert send(bench, message("a", partition_key="x")) == [0]
    assert send(bench, message("a", session_id="x")) == [0], "the key is the session's id"
    assert send(bench, message("a", session_id="z", partition_key="z")) == []
    assert send(bench, message("a")) == []
    assert send(bench, message("a")) == [0]


def test_an_id_and_a_key_are_never_taken_for_others_that_read_alike() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("a\0b", "c"), ("a", "\0bc")]
    found = {identity_of(message(id_, partition_key=key), id_, True) for id_, key in pairs}
    assert len(found) == len(pairs)


@pytest.mark.rule("DUP-4", "DUP-5")
def test_the_window_runs_from_the_first_sighting_and_is_not_moved(bench: FragmentBench) -> None:
    send(bench, message("a"))
    bench.scheduler.advance_ms(WINDOW_MS - 1000)
    assert send(bench, message("a")) == [0]
    bench.scheduler.advance_ms(999)
    assert send(bench, message("a")) == [0]
    bench.scheduler.advance_ms(20)
    assert send(bench, message("a")) == []
    assert send(bench, message("a")) == [0], "a new window has begun"


@pytest.mark.rule("DUP-4")
def test_a_changed_window_holds_at_once(bench: FragmentBench) -> None:
    send(bench, message("a"))
    bench.scheduler.advance_ms(30_000)
    bench.state.spec = replace(SPEC, duplicate_window_ms=20_000)
    assert send(bench, message("a")) == []
    bench.state.spec = replace(SPEC, duplicate_window_ms=7 * 86_400_000)
    bench.scheduler.advance_ms(WINDOW_MS)
    assert send(bench, message("a")) == [0]


@pytest.mark.rule("DUP-5")
@pytest.mark.parametrize("how", ["complete", "dead-letter", "delete", "purge", "cancel"])
def test_what_becomes_of_the_message_does_not_clear_its_id(bench: FragmentBench, how: str) -> None:
    due_ms = bench.clock.now_ms() + 60_000 if how == "cancel" else 0
    send(bench, message("a", scheduled_ms=due_ms))
    if how == "cancel":
        assert bench.cancel(1) == 1
    elif how == "purge":
        assert bench.purge(10) == 1
    elif how == "delete":
        bench.receive(1, deletes=True)
    else:
        (got,) = bench.receive(1)
        outcome = Outcome.COMPLETE if how == "complete" else Outcome.DEAD_LETTER
        assert bench.settle([got.token], outcome) == ([], None)
    assert send(bench, message("a")) == [0]
    assert len(bench.receive(5, SubQueueType.DEAD_LETTER)) == (how == "dead-letter")


@pytest.mark.rule("DUP-6", "SCH-9")
def test_scheduled_and_immediate_sends_share_the_history(bench: FragmentBench) -> None:
    due_ms = bench.clock.now_ms() + 60_000
    send(bench, message("now"))
    assert send(bench, message("now", scheduled_ms=due_ms)) == [0]
    assert send(bench, message("later", scheduled_ms=due_ms)) == []
    assert send(bench, message("later")) == [0]
    assert send(bench, message("later", scheduled_ms=due_ms)) == [0]
    bench.scheduler.advance_ms(61_000)
    assert [m.sequence for m in bench.receive(9)] == [1, 3], "activation is no second sighting"
    assert send(bench, message("later")) == [0]


def test_a_duplicate_waits_for_the_message_that_it_repeats(bench: FragmentBench) -> None:
    bench.broker.submit(bench.machine, enqueue(bench, message("a"), request=1))
    bench.broker._turn()
    bench.broker.submit(bench.machine, enqueue(bench, message("a"), request=2))
    bench.broker._turn()
    assert bench.ports.confirmations == []
    bench.run()
    assert bench.ports.confirmations == [1, 2]
    assert len(bench.receive(5)) == 1


def test_when_the_first_copy_fails_its_duplicates_are_refused_too(bench: FragmentBench) -> None:
    bench.broker.submit(bench.machine, enqueue(bench, message("a"), request=1))
    bench.broker._turn()
    bench.broker.submit(bench.machine, enqueue(bench, message("a"), message("b"), request=2))
    bench.broker._turn()
    failing(bench).fail()
    bench.run()
    assert [request for request, _ in bench.ports.refusals] == [1, 2]
    assert all(isinstance(error, StoreUnavailable) for _, error in bench.ports.refusals)
    assert dropped_count(bench) == 0
    failing(bench).heal()
    bench.run()
    assert send(bench, message("a"), message("b")) == [], "nothing is left of them"
    assert [m.sequence for m in bench.receive(5)] == [1, 2]


def test_a_full_queue_takes_duplicates_and_forgets_what_it_refused() -> None:
    bench = FragmentBench(replace(SPEC, size_bytes_max=10))
    send(bench, message("a", bytes(10)))
    assert send(bench, message("a", bytes(10))) == [0]
    bench.submit(enqueue(bench, message("a"), message("b"), request=5))
    ((request, error),) = bench.ports.refusals
    assert request == 5 and isinstance(error, QuotaExceeded)
    bench.receive(1, deletes=True)
    assert send(bench, message("b")) == []


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_ids_and_their_windows_survive_a_restart(
    bench: FragmentBench, with_checkpoint: bool
) -> None:
    send(bench, *[message(f"early-{n}") for n in range(300)])
    bench.scheduler.advance_ms(WINDOW_MS // 2)
    send(bench, message("late"))
    if with_checkpoint:
        bench.broker._checkpoint()
        bench.run()
    bench.receive(1000, deletes=True)
    bench.start()
    assert send(bench, message("early-0"), message("early-299"), message("late")) == [0, 1, 2]
    assert bench.ports.first_sequences[-1] == 302
    bench.scheduler.advance_ms(WINDOW_MS // 2 + 20)
    bench.start()
    assert send(bench, message("early-0"), message("late")) == [1]


def test_a_crash_before_durability_leaves_no_id(bench: FragmentBench) -> None:
    bench.broker.submit(bench.machine, enqueue(bench, message("a")))
    bench.broker._turn()
    bench.start()
    assert send(bench, message("a")) == []


def test_an_idle_fragment_gives_the_memory_of_old_ids_back(bench: FragmentBench) -> None:
    send(bench, *[message(str(n)) for n in range(5000)])
    bench.receive(5000, deletes=True)
    assert bench.state.history.count == 5000
    bench.scheduler.advance_ms(2 * WINDOW_MS)
    assert bench.state.history.count == 0
    assert bench.machine.deadline_ms() is None


@pytest.mark.rule("DUP-10")
def test_dropped_duplicates_are_counted_and_logged_once_a_second(
    bench: FragmentBench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "partibus.fragment")
    send(bench, message("a"))
    for _ in range(5):
        send(bench, message("a"), message("a"))
    bench.scheduler.advance_ms(1000)
    send(bench, message("a"))
    assert dropped_count(bench) == 11
    lines = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("2 duplicates sent to 'q' were dropped")
    assert lines[1].startswith("9 duplicates") and "'a'" in lines[1]
