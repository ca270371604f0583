"""What a destination takes from an outbox: each number once, and none that was fenced."""

import pytest

from partibus.domain.errors import ParcelSealed, QuotaExceeded, StoreCorrupt, StoreUnavailable
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Fence
from partibus.fragment.outbox.marks import Marks, Origin
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=2, path="q")
DETECTS = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=2, path="q", duplicate_window_ms=60_000
)
ORIGIN = 77


def command(bench: FragmentBench, *numbers: int, origin: int = ORIGIN) -> Enqueue:
    messages = [NewMessage(b"%d" % n, -1, message_id=f"id-{n}") for n in numbers]
    size = sum(len(message.body) for message in messages)
    return Enqueue(bench.ports, messages, [0], size, Origin(origin, list(numbers)))


def hand_over(bench: FragmentBench, *numbers: int, origin: int = ORIGIN) -> None:
    bench.submit(command(bench, *numbers, origin=origin))


def there(bench: FragmentBench) -> list[bytes]:
    return [message.body for message in bench.peek()]


def fence(bench: FragmentBench, number: int) -> int | object:
    bench.submit(Fence(bench.ports, ORIGIN, number))
    return bench.ports.answers.pop()


@pytest.mark.rule("TXN-17")
@pytest.mark.parametrize("restart", ["none", "crash", "checkpoint"])
def test_a_repetition_is_dropped_and_confirmed(restart: str) -> None:
    bench = FragmentBench(SPEC)
    hand_over(bench, 3, 5)
    if restart == "checkpoint":
        bench.broker._checkpoint()
        bench.run()
    if restart != "none":
        bench.start()
    hand_over(bench, 3, 5)
    hand_over(bench, 5, 8)
    hand_over(bench, 3, origin=ORIGIN + 1)
    assert there(bench) == [b"3", b"5", b"8", b"3"]
    assert len(bench.ports.confirmations) == 4
    assert bench.state.size_bytes == 4


def test_a_repetition_is_not_confirmed_before_the_first_is_durable() -> None:
    bench = FragmentBench(SPEC)
    for _ in range(2):
        bench.broker.submit(bench.machine, command(bench, 1))
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.scheduler._soon.popleft()()
    store.fail()
    bench.run()
    assert bench.ports.confirmations == []
    assert [type(error) for _, error in bench.ports.refusals] == [StoreUnavailable] * 2
    store.heal()
    bench.run()
    hand_over(bench, 1)
    assert there(bench) == [b"1"]


@pytest.mark.rule("DUP-7")
def test_duplicates_are_dropped_and_marked() -> None:
    bench = FragmentBench(DETECTS)
    hand_over(bench, 1)
    hand_over(bench, 1, origin=ORIGIN + 1)
    assert there(bench) == [b"1"]
    assert bench.state.marks.of(ORIGIN + 1).taken == 1
    bench.start()
    assert bench.state.marks.of(ORIGIN + 1).taken == 1


def test_what_was_taken_has_room_though_the_fragment_is_full() -> None:
    spec = FragmentSpec(lock_duration_ms=1, max_delivery_count=1, size_bytes_max=2)
    bench = FragmentBench(spec)
    hand_over(bench, 1, 2)
    hand_over(bench, 2)
    assert len(bench.ports.confirmations) == 2
    hand_over(bench, 3)
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, QuotaExceeded)
    assert bench.state.marks.of(ORIGIN).taken == 2


@pytest.mark.parametrize("restart", ["none", "crash", "checkpoint"])
def test_what_is_fenced_is_refused_until_something_higher_is_taken(restart: str) -> None:
    bench = FragmentBench(SPEC)
    hand_over(bench, 1, 2)
    assert fence(bench, 5) == 2
    if restart == "checkpoint":
        bench.broker._checkpoint()
        bench.run()
    if restart != "none":
        bench.start()
    hand_over(bench, 2, 3)
    hand_over(bench, 5)
    assert [type(error) for _, error in bench.ports.refusals] == [ParcelSealed] * 2
    assert fence(bench, 4) == 2
    hand_over(bench, 2)
    hand_over(bench, 6)
    assert there(bench) == [b"1", b"2", b"6"]
    assert fence(bench, 5) == 6


def test_a_fence_waits_for_what_is_under_way() -> None:
    bench = FragmentBench(SPEC)
    bench.broker.submit(bench.machine, command(bench, 1))
    bench.broker.submit(bench.machine, Fence(bench.ports, ORIGIN, 4))
    bench.run()
    assert bench.ports.answers == [1]


def test_a_fence_on_a_failing_store() -> None:
    bench = FragmentBench(SPEC)
    assert isinstance(bench.store, MemoryStore)
    bench.store.fail()
    assert isinstance(fence(bench, 4), StoreUnavailable)
    bench.store.heal()
    bench.run()
    hand_over(bench, 1)
    assert there(bench) == [b"1"]


def test_marks_in_a_snapshot_are_whole() -> None:
    with pytest.raises(StoreCorrupt, match="truncated"):
        Marks().load(b"123")
