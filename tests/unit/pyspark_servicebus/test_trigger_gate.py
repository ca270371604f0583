"""Batches that wait for enough messages, or long enough."""

from pyspark_servicebus.source.trigger_gate import TriggerGate


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_without_a_minimum_nothing_waits() -> None:
    gate = TriggerGate(0, 60_000)
    assert gate.lets_through(1)
    assert gate.lets_through(0)


def test_enough_messages_go_at_once() -> None:
    gate = TriggerGate(10, 60_000, Clock())
    assert gate.lets_through(10)
    assert not gate.lets_through(9)


def test_few_messages_go_when_they_have_waited_long_enough() -> None:
    clock = Clock()
    gate = TriggerGate(10, 60_000, clock)
    assert not gate.lets_through(3)
    clock.now_s += 59.9
    assert not gate.lets_through(4)
    clock.now_s += 0.1
    assert gate.lets_through(4)
    # The next wait begins with the next messages, not with the last batch.
    assert not gate.lets_through(2)
    clock.now_s += 30
    assert gate.lets_through(0)
    clock.now_s += 60
    assert not gate.lets_through(2)
