"""A store whose disk is almost full: nothing is taken, everything else goes on."""

import pytest

from partibus.domain.errors import StoreFull
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.transactions.commands import SILENT, Transact
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


def test_sends_are_refused_with_an_error_to_try_again(bench: FragmentBench) -> None:
    bench.store.shortage = "almost full"
    bench.send(b"a", b"b")
    assert bench.ports.confirmations == []
    assert len(bench.ports.refusals) == 2
    error = bench.ports.refusals[0][1]
    assert isinstance(error, StoreFull)
    assert error.text == "almost full"
    assert error.retryable and error.condition == "com.microsoft:server-busy"
    bench.store.shortage = None
    bench.send(b"c")
    assert [message.body for message in bench.receive(5)] == [b"c"]


def test_what_is_there_is_received_settled_and_purged(bench: FragmentBench) -> None:
    bench.send(b"a", b"b", b"c", b"d")
    bench.store.shortage = "almost full"
    first, second = bench.receive(2)
    assert bench.settle([first.token, second.token]) == ([], None)
    assert [m.body for m in bench.receive(1, deletes=True)] == [b"c"]
    assert bench.purge(10) == 1
    assert bench.receive(5) == []
    assert bench.store.live_bytes == 0


def test_a_transaction_that_sends_is_refused_as_a_whole(bench: FragmentBench) -> None:
    bench.store.shortage = "almost full"
    send = Enqueue(SILENT, [NewMessage(b"a", -1)], [1], 1)
    bench.submit(Transact(bench.ports, [(1, send)], 1))
    assert isinstance(bench.ports.answers.pop(), StoreFull)
    assert bench.receive(5) == []
