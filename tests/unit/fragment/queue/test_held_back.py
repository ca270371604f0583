"""Answers that wait behind a read: what they are to read is held until their turn."""

from collections import Counter
from functools import partial

from partibus.fragment.commands import Peek, SubQueueType
from partibus.fragment.spec import FragmentSpec
from partibus.store.callbacks import call_back_read
from partibus.store.interface import ReadDone, Ref
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


class ColdStore(MemoryStore):
    """Every body must be waited for."""

    reads: list[tuple[list[Ref], ReadDone]]
    held: Counter[int]

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        return None

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        self.reads.append((refs, done))

    def hold(self, positions: list[int]) -> None:
        self.held.update(positions)

    def let_go(self, positions: list[int]) -> None:
        self.held.subtract(positions)
        self.held += Counter()  # without those that are held no more

    def answer(self) -> None:
        refs, done = self.reads.pop(0)
        self._notify(partial(call_back_read, done, [self._bodies[at] for at, _ in refs]))


def test_what_waits_for_its_turn_is_held() -> None:
    store = ColdStore(notify=lambda callback: None)  # before there is a loop nothing is told
    store.reads, store.held = [], Counter()
    bench = FragmentBench(SPEC, store)
    store._notify = bench.scheduler.call_soon
    bench.send(b"a", b"b")
    for sequence in (1, 2, 1):
        bench.submit(Peek(bench.ports, SubQueueType.MAIN, sequence, 1, 1 << 20))
    assert len(store.reads) == 1
    assert sorted(store.held.values()) == [1, 1]
    for left in (1, 0, 0):
        store.answer()
        bench.run()
        assert sum(store.held.values()) == left
    assert [found[0].body for found in bench.ports.lookups] == [b"a", b"b", b"a"]
