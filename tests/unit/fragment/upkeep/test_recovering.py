"""From records to states: what a store says of itself, and records that contradict each other."""

import struct
from collections.abc import Iterator

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.fragment import records
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Overlay
from partibus.fragment.records import DROPPED, ENQUEUED, ENQUEUED_META, REMOVED, pack_sequences
from partibus.fragment.snapshot import dump
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.topics.records import PUBLISHED, pack_published
from partibus.fragment.upkeep.recovering import rebuild
from partibus.fragment.upkeep.store_marks import STORE_FRAGMENT, StoreMarks
from partibus.store.interface import Recovered, RecoveredRecord
from partibus.testing.fragment import FragmentBench

NAMESPACE = bytes(range(16))


def enqueued(fragment: int, sequence: int) -> RecoveredRecord:
    return RecoveredRecord(fragment, ENQUEUED, ENQUEUED_META.pack(sequence, 1, 0), 100, 5)


def recovered(*records: RecoveredRecord, **states: bytes) -> Recovered:
    return Recovered({int(name[1:]): state for name, state in states.items()}, iter(records))


def own(marks: StoreMarks) -> RecoveredRecord:
    record = marks.record()
    return RecoveredRecord(record.fragment, record.kind, record.meta, 0, 0)


def marks(generation: int = 3, fragment_max: int = 9) -> StoreMarks:
    made = StoreMarks()
    made.identify(NAMESPACE, 2)
    made.follow(generation)
    made.saw(fragment_max)
    return made


def test_a_new_store_says_nothing() -> None:
    rebuilt = rebuild(recovered())
    assert rebuilt.marks.is_blank and not rebuilt.states


def test_the_last_record_of_itself_counts() -> None:
    rebuilt = rebuild(recovered(own(marks(3)), enqueued(4, 1), own(marks(5))))
    found = rebuilt.marks
    assert (found.namespace, found.number, found.generation) == (NAMESPACE, 2, 5)
    assert found.fragment_max == 9
    assert list(rebuilt.states) == [4]
    assert not found.is_blank and not found.is_due


def test_a_checkpoint_has_it_too() -> None:
    states: dict[int, bytes] = {}
    marks().add_to(states)
    assert list(states) == [STORE_FRAGMENT]
    found = rebuild(recovered(enqueued(12, 1), s0=states[STORE_FRAGMENT])).marks
    assert (found.namespace, found.generation, found.fragment_max) == (NAMESPACE, 3, 12)


def test_a_generation_is_noted_once_the_store_was_told_whose_it_is() -> None:
    fresh = StoreMarks()
    fresh.follow(7)
    assert (fresh.generation, fresh.is_due) == (0, False)
    told = marks(3)
    told.record()
    told.follow(3)
    assert not told.is_due
    told.follow(4)
    assert told.is_due
    told.record()
    told.not_written()
    assert told.is_due


def test_a_dropped_fragment_leaves_nothing_but_its_number() -> None:
    dropped = RecoveredRecord(7, DROPPED, b"", 0, 0)
    published = RecoveredRecord(3, PUBLISHED, pack_published(1, 1, {0: [7]}), 100, 5)
    rebuilt = rebuild(recovered(enqueued(7, 1), dropped, published))
    assert list(rebuilt.states) == [3]
    assert rebuilt.marks.fragment_max == 7


def two_writers() -> Iterator[RecoveredRecord]:
    yield from (enqueued(5, 1), enqueued(5, 2), enqueued(5, 1))


def a_stranger() -> Iterator[RecoveredRecord]:
    yield from (enqueued(5, 1), RecoveredRecord(5, REMOVED, pack_sequences([9]), 0, 0))


def cut_short() -> Iterator[RecoveredRecord]:
    yield RecoveredRecord(5, ENQUEUED, b"short", 100, 5)


@pytest.mark.parametrize("records", [two_writers, a_stranger, cut_short])
def test_records_that_contradict_each_other_are_refused_by_fragment(records: object) -> None:
    assert callable(records)
    with pytest.raises(StoreCorrupt, match=r"^fragment 5: "):
        rebuild(Recovered({}, records()))


def test_a_snapshot_that_contradicts_itself_is_refused_by_fragment() -> None:
    bench = FragmentBench(FragmentSpec(lock_duration_ms=1, max_delivery_count=3, path="q"))
    bench.send(b"a")
    (delivered,) = bench.receive(1)
    bench.settle([delivered.token], Outcome.DEAD_LETTER, overlay=Overlay(b"", "why", None))
    damaged = dump(bench.state).replace(b"why", b"\xff\xff\xff")
    with pytest.raises(StoreCorrupt, match=r"^fragment 5: its snapshot"):
        rebuild(recovered(s5=damaged))


def test_a_run_of_messages_in_a_session_that_are_not_there_is_refused() -> None:
    run = struct.pack("<QIH", 1, 0xFFFF_FFFF, 1) + b"s"
    claimed = RecoveredRecord(5, records.IN_SESSIONS, run, 0, 0)
    with pytest.raises(StoreCorrupt, match="do not exist"):
        rebuild(recovered(enqueued(5, 1), claimed))


def test_a_record_of_a_later_release_is_refused() -> None:
    with pytest.raises(StoreCorrupt, match="release"):
        rebuild(recovered(RecoveredRecord(STORE_FRAGMENT, 9, b"\x02" + bytes(32), 0, 0)))


def test_no_two_kinds_of_records_have_one_number() -> None:
    public = {name: value for name, value in vars(records).items() if name.isupper()}
    limits = ("_BYTES", "_MAX", "_TTL")
    kinds = [v for name, v in public.items() if isinstance(v, int) and not name.endswith(limits)]
    assert len(kinds) > 30
    assert len(kinds) == len(set(kinds))


def test_a_checkpoint_of_a_running_broker_keeps_what_the_store_is() -> None:
    bench = FragmentBench(FragmentSpec(lock_duration_ms=1_000, max_delivery_count=3, path="q"))
    bench.broker.marks.identify(NAMESPACE, 2)
    bench.send(b"a")
    bench.broker._upkeep.checkpoint()
    bench.run()
    assert STORE_FRAGMENT in bench.store.open().states
    bench.start()
    assert (bench.broker.marks.namespace, bench.broker.marks.number) == (NAMESPACE, 2)
    assert bench.broker.strangers() == []
