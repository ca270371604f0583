"""Waiting messages seen and locked by number, for consumers that choose."""

from dataclasses import replace

import pytest

from partibus.fragment.commands import Outcome, Peek, Pick, SubQueueType
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import Delivered, FragmentBench

pytestmark = pytest.mark.rule("JMS-5", "JMS-7")

SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    bench = FragmentBench(SPEC)
    bench.send(b"1", b"2", b"3", b"4")
    return bench


def waiting(bench: FragmentBench) -> list[bytes]:
    bench.submit(Peek(bench.ports, SubQueueType.MAIN, 0, 10, 1 << 20, None, True))
    found = bench.ports.lookups.pop()
    assert isinstance(found, list)
    return [message.body for message in found]


def pick(
    bench: FragmentBench, *sequences: int, subqueue: SubQueueType = SubQueueType.MAIN
) -> list[Delivered]:
    bench.submit(Pick(bench.ports, subqueue, list(sequences)))
    found = bench.ports.lookups.pop()
    assert isinstance(found, list)
    return found


def test_what_waits_is_shown_without_what_is_locked_or_deferred(bench: FragmentBench) -> None:
    first, second = bench.receive(2)
    assert waiting(bench) == [b"3", b"4"]
    bench.settle([first.token], Outcome.DEFER)
    bench.settle([second.token], Outcome.ABANDON)
    assert waiting(bench) == [b"2", b"3", b"4"]


def test_picked_messages_are_locked_for_the_full_time(bench: FragmentBench) -> None:
    second, fourth = pick(bench, 2, 4)
    assert (second.body, fourth.body) == (b"2", b"4")
    assert second.locked_until_ms == bench.clock.now_ms() + SPEC.lock_duration_ms
    assert waiting(bench) == [b"1", b"3"]
    assert bench.settle([second.token]) == ([], None)
    assert bench.settle([fourth.token], Outcome.ABANDON) == ([], None)
    assert waiting(bench) == [b"1", b"3", b"4"]


def test_what_another_has_taken_is_left_out(bench: FragmentBench) -> None:
    bench.receive(1)
    assert [message.body for message in pick(bench, 1, 2, 99)] == [b"2"]


def test_a_picked_message_lapses_like_any_other(bench: FragmentBench) -> None:
    (third,) = pick(bench, 3)
    bench.scheduler.advance_ms(SPEC.lock_duration_ms)
    bench.run()
    assert bench.settle([third.token]) == ([third.token], None)
    (again,) = pick(bench, 3)
    assert again.delivery_count == 1


def test_what_has_expired_is_not_given(bench: FragmentBench) -> None:
    bench.send(b"brief", ttl_ms=5)
    bench.clock.advance_ms(10)
    assert pick(bench, 5) == []


@pytest.mark.rule("TTL-9")
def test_a_dead_letter_is_given_however_old_it_is() -> None:
    bench = FragmentBench(replace(SPEC, dead_letter_on_expiry=True))
    bench.send(b"brief", ttl_ms=5)
    bench.scheduler.advance_ms(2_000)
    (message,) = pick(bench, 1, subqueue=SubQueueType.DEAD_LETTER)
    assert message.body == b"brief"
