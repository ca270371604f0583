"""Everything of a stopped store as one checkpoint: locks of a clean stop, pages, all bodies."""

from collections.abc import Iterable

from partibus.fragment.paging import NewPages
from partibus.fragment.records import STORE_IDENTIFIED
from partibus.fragment.snapshot import dump, load
from partibus.fragment.spec import NO_SPEC, FragmentSpec
from partibus.fragment.state import State
from partibus.fragment.upkeep.recovering import Rebuilt, rebuild
from partibus.fragment.upkeep.store_marks import STORE_FRAGMENT, StoreMarks
from partibus.fragment.upkeep.whole_snapshot import take_whole, whole_bodies
from partibus.store.interface import Recovered, RecoveredRecord
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


class PagesOf:
    """Pages as a store has them."""

    def __init__(self, pages: dict[int, bytes]) -> None:
        self._pages = pages
        self.last = max(pages, default=0)

    def read(self, number: int) -> bytes:
        return self._pages[number]


def stopped(bench: FragmentBench) -> tuple[bytes, PagesOf]:
    """The state of the fragment as a clean stop leaves it."""
    new = NewPages(1)
    data = dump(bench.machine.state, keeps_locks=True, pages=new)
    return data, PagesOf({n: b"".join(source()) for n, source in new.unwritten.items()})


def recovered(data: bytes, pages: PagesOf, records: Iterable[RecoveredRecord] = ()) -> Rebuilt:
    return rebuild(Recovered({1: data}, iter(records), pages))


def copied(rebuilt: Rebuilt, pages: PagesOf) -> State:
    """What a store that begins with the snapshot recovers."""
    snapshot = take_whole(rebuilt, pages, 1000)
    kept = PagesOf({n: b"".join(source()) for n, source in snapshot.pages.items()})
    return load(1, NO_SPEC, snapshot.states[1], kept)


def test_locks_of_a_clean_stop_come_along() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b", b"c")
    bench.receive(2)
    data, pages = stopped(bench)
    rebuilt = recovered(data, pages)
    found = copied(rebuilt, pages)
    assert found.kept_locks == rebuilt.states[1].kept_locks != b""
    assert len(found.main.ready) == 3
    assert found.next_sequence == 4


def test_locks_that_a_later_life_has_ended_do_not() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b")
    bench.receive(1)
    data, pages = stopped(bench)
    marks = StoreMarks()
    marks.identify(bytes(16), 0)
    mark = RecoveredRecord(STORE_FRAGMENT, STORE_IDENTIFIED, marks.record().meta, 0, 0)
    assert copied(recovered(data, pages, [mark]), pages).kept_locks != b""
    bench.send(b"c")
    (record,) = [r for r in bench.store.open().records if r.fragment == 1][-1:]
    assert copied(recovered(data, pages, [record]), pages).kept_locks == b""


def test_pages_keep_their_numbers_and_what_is_new_gets_others() -> None:
    bench = FragmentBench(SPEC)
    bench.send(*(bytes([n]) for n in range(200)))
    data, pages = stopped(bench)
    assert pages.last >= 1
    rebuilt = recovered(data, pages)
    snapshot = take_whole(rebuilt, pages, 1000)
    assert set(snapshot.pages) == set(range(1, pages.last + 1))
    assert len(whole_bodies(rebuilt)) == 200
    changed = recovered(data, pages)
    changed.states[1].main.ready.take(100)
    assert len(copied(changed, pages).main.ready) == 199
    assert changed.states[1].main.ready.chunks()[0].page > pages.last
