"""The results of a server's probes, and what they mean.

Owns which of them keep clients away, which only count as defects, and the sentence for each. Knows
no HTTP: `ops.health` answers with it. Made by the server.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

DOWN: Final = "down"
STUCK: Final = "stuck"
"""The store accepts entries, but makes none durable."""
UNREACHABLE: Final = "unreachable"
"""Its worker does not answer, or no node serves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """The result of one store's probe."""

    state: str
    age_ms: int | None = None
    """How long ago the last probe was durable; None if there was none, or no write was needed."""
    damaged: int = 0
    short: bool = False

    @property
    def writes(self) -> bool:
        """Whether messages are stored there."""
        return self.state not in (DOWN, STUCK, UNREACHABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The results of a server's probes."""

    workers: Mapping[int, bool]
    """By number, whether it answers."""
    stores: Mapping[int, StoreHealth]
    reads_catalog: bool = True
    is_draining: bool = False

    def obstacles(self) -> Iterator[str]:
        """Why no client should connect here."""
        if self.is_draining:
            yield "The server is stopping."
        lost = [worker for worker, answers in self.workers.items() if not answers]
        if lost:
            yield f"Worker {_list(lost)} does not answer."
        if not self.reads_catalog:
            yield "The catalog cannot be read; see the log."
        if not self._writing():
            yield from self._faulty() or ([] if lost else self._unserved())

    def defects(self) -> Iterator[str]:
        """What is wrong although clients are served."""
        if self._writing():
            yield from self._faulty()
        damaged = sum(store.damaged for store in self.stores.values())
        if damaged:
            yield f"{damaged} stored messages failed their checksum; see the log."

    def notes(self) -> Iterator[str]:
        """What an operator should act on."""
        short = [number for number, store in self.stores.items() if store.short]
        if short:
            # It serves: an orchestrator must not restart it, which would not free space.
            yield (
                f"The disk of store {_list(short)} is almost full: sends are refused, while "
                "messages are received and settled. Free space, or receive messages."
            )
        if self._writing() and all(self.workers.values()):
            yield from self._unserved()

    def _unserved(self) -> list[str]:
        """The lanes of a cluster that are between two nodes; they move by themselves."""
        lanes = [number for number, store in self.stores.items() if store.state == UNREACHABLE]
        return [f"Store {_list(lanes)} is not served by any node."] if lanes else []

    def _writing(self) -> list[int]:
        return [number for number, store in self.stores.items() if store.writes]

    def _faulty(self) -> list[str]:
        """The stores that do not write; those of lost workers are among them."""
        down = [number for number, store in self.stores.items() if store.state == DOWN]
        stuck = [number for number, store in self.stores.items() if store.state == STUCK]
        texts = [f"Store {_list(down)} is down; it is being probed."] if down else []
        if stuck:
            texts.append(f"Store {_list(stuck)} does not make writes durable in time.")
        return texts


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
