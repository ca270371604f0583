"""What clients were promised and what they saw, and the proof that the two fit.

Owns the books of one queue: what was sent, acknowledged, delivered and settled. Proved is that
nothing acknowledged is lost, that what was sent one after the other with one key or session is in
that order, that a session delivers in order, and that nothing is settled twice. A send or a
settlement without an answer may have been done or not. Asks no server. Filled by
`support.nodes.traffic`.
"""

import threading
from collections import Counter
from itertools import count, pairwise
from typing import Final

_numbers: Final = count(1)


class Books:
    """Of one queue; any thread may write."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._number = next(_numbers)
        self._names = count(1)
        self.acknowledged: dict[str, str | None] = {}
        """Names to keys, in the order of sending."""
        self.deliveries = 0
        self._numbers: dict[str, set[int]] = {}
        """The sequence numbers under which each was seen."""
        self._holds: list[list[int]] = []
        self.settled: Counter[str] = Counter()
        """How often each was settled with an answer."""
        self._unsure: set[str] = set()
        """Settled without an answer."""

    def new_name(self) -> str:
        """A name for the next message."""
        with self._turn:
            return f"{self._number}-{next(self._names)}"

    def was_acknowledged(self, name: str, key: str | None) -> None:
        """The bus has answered for it; those of one key are sent one after the other."""
        with self._turn:
            self.acknowledged[name] = key

    def new_hold(self) -> list[int]:
        """A receiver has a session: the sequence numbers of what it gets go here."""
        with self._turn:
            self._holds.append([])
            return self._holds[-1]

    def was_delivered(self, name: str, number: int, hold: list[int] | None) -> None:
        """A client got it under a lock."""
        with self._turn:
            self.deliveries += 1
            self._numbers.setdefault(name, set()).add(number)
            if hold is not None:
                hold.append(number)

    def is_being_settled(self, name: str) -> bool:
        """Until there is an answer, it may be gone; whether that is so from now on only."""
        with self._turn:
            is_new = name not in self._unsure
            self._unsure.add(name)
            return is_new

    def was_kept(self, name: str) -> None:
        """The bus has answered that it is not settled: its lock was lost."""
        with self._turn:
            self._unsure.discard(name)

    def was_settled(self, name: str) -> None:
        """The bus has answered that it is gone."""
        with self._turn:
            self.settled[name] += 1

    # --- proofs ---------------------------------------------------------------------------

    def open(self) -> set[str]:
        """What was promised and is still to be received and settled."""
        with self._turn:
            return self.acknowledged.keys() - self._unsure

    def check(self) -> None:
        """All that can be said when nothing is under way any more."""
        with self._turn:
            self._check_numbers()
            self._check_order()
        lost = self.open()
        assert not lost, f"acknowledged and never delivered: {sorted(lost)}"
        twice = [name for name, count in self.settled.items() if count > 1]
        assert not twice, f"settled twice, each time with an answer: {twice}"

    def check_rest(self, names: set[str]) -> None:
        """What lies in the queue at the end was not settled with an answer."""
        back = names & self.settled.keys()
        assert not back, f"settled, and back in the queue: {sorted(back)}"

    def _check_numbers(self) -> None:
        owner: dict[int, str] = {}
        for name, numbers in self._numbers.items():
            assert len(numbers) == 1, f"{name} had the sequence numbers {numbers}"
            other = owner.setdefault(min(numbers), name)
            assert other == name, f"{name} and {other} have the sequence number {min(numbers)}"

    def _check_order(self) -> None:
        by_key: dict[str, list[str]] = {}
        for name, key in self.acknowledged.items():
            if key is not None and name in self._numbers:
                by_key.setdefault(key, []).append(name)
        for key, names in by_key.items():
            for before, after in pairwise(names):
                is_so = max(self._numbers[before]) < min(self._numbers[after])
                assert is_so, f"{after} was sent after {before} with key {key}, and lies before it"
        for hold in self._holds:
            for first, second in pairwise(hold):
                assert first < second, f"a session has delivered {second} after {first}: {hold}"
