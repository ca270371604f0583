"""Turns at TLS handshakes: bounded, newest first, the slow ones ended when others wait."""

import socket
from collections.abc import Callable

from partibus.listener.handshakes import PATIENCE_MS, STARTS_PER_TURN, Handshakes
from partibus.listener.sniff import FirstBytes, Traffic
from unit.listener.front import ManualClock


class Turns:
    """Records who began, and who was made to end."""

    def __init__(self, most: int) -> None:
        self.clock = ManualClock()
        self.begun: list[FirstBytes] = []
        self.ended: list[FirstBytes] = []
        self.soon: list[Callable[[], None]] = []
        self.handshakes = Handshakes(self.clock, self._begin, self.soon.append, most)
        self._sock = socket.socket()
        self._sock.close()

    def ask(self) -> FirstBytes:
        first = FirstBytes(self)
        self.handshakes.ask(first, self._sock)
        return first

    def turn(self) -> None:
        """The loop turns once."""
        due, self.soon[:] = list(self.soon), []
        for callback in due:
            callback()

    def _begin(self, first: FirstBytes, sock: socket.socket) -> None:
        assert sock is self._sock
        self.begun.append(first)

    def given_up(self, first: FirstBytes) -> None:
        self.ended.append(first)

    def decided(self, first: FirstBytes, traffic: Traffic, data: bytes) -> None:
        raise AssertionError

    def departed(self, first: FirstBytes) -> None:
        raise AssertionError


def test_only_so_many_shake_hands_at_once() -> None:
    turns = Turns(most=2)
    asked = [turns.ask() for _ in range(4)]
    assert turns.begun == asked[:2]
    assert len(turns.handshakes._shaking) == 2


def test_few_begin_in_one_turn_of_the_loop() -> None:
    turns = Turns(most=100)
    asked = [turns.ask() for _ in range(2 * STARTS_PER_TURN + 1)]
    assert len(turns.begun) == STARTS_PER_TURN
    turns.turn()
    assert len(turns.begun) == 2 * STARTS_PER_TURN
    turns.turn()
    assert set(turns.begun) == set(asked)
    turns.turn()
    assert not turns.soon


def test_the_newest_has_the_next_turn() -> None:
    turns = Turns(most=1)
    first, second, third = (turns.ask() for _ in range(3))
    turns.handshakes.end(first)
    assert turns.begun == [first, third]
    turns.handshakes.end(third)
    assert turns.begun == [first, third, second]
    turns.handshakes.end(second)
    assert not turns.handshakes._shaking


def test_a_slow_one_makes_room_only_when_it_is_slow() -> None:
    turns = Turns(most=1)
    slow = turns.ask()
    turns.clock.advance(PATIENCE_MS - 1)
    waiting = turns.ask()
    assert turns.ended == []
    turns.clock.advance(1)
    newest = turns.ask()
    assert turns.ended == [slow]
    assert turns.begun == [slow, newest]
    turns.handshakes.end(slow)
    assert turns.begun == [slow, newest]
    turns.handshakes.end(newest)
    assert turns.begun == [slow, newest, waiting]


def test_who_waits_may_withdraw_and_who_shakes_may_not() -> None:
    turns = Turns(most=1)
    shaking, waiting = turns.ask(), turns.ask()
    assert turns.handshakes.withdraw(shaking) is None
    assert turns.handshakes.withdraw(waiting) is not None
    assert turns.handshakes.withdraw(waiting) is None
    turns.handshakes.end(shaking)
    assert turns.begun == [shaking]
