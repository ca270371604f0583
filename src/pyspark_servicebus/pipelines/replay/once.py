"""Sending captured fragments to the bus, each message once.

Owns the writer of one captured fragment: it stages messages in their order and publishes them group
by group, and the number of a group is the sequence number of its last message. So the bus itself
knows how far each fragment is, and the next attempt of a task, or the next run, leaves out what the
bus has. A new attempt first makes the bus refuse earlier ones, and only then asks. It must never
control the pace or write files.
"""

import contextlib
from dataclasses import dataclass
from typing import Final

from pyspark_servicebus.access import Access
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.sink.delivery import Refuse, RowMessage
from pyspark_servicebus.sink.staging import Home, StagedTarget

CHUNK_BYTES: Final = 1024 * 1024
NOTHING: Final = -1


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One replay, over all its runs."""

    name: str
    """What is sent where."""
    started_ms: int

    @property
    def series(self) -> str:
        """The series of its groups: the same messages may be replayed a second time."""
        return f"replay {self.started_ms}"

    def home(self, path: str, fragment: int, access: Access) -> Home:
        """The fragment in which the messages of a captured fragment are staged."""
        return Home(path, f"replay-{self.name}-{fragment}", access)


class FragmentWriter:
    """The messages of one captured fragment, in ascending order."""

    def __init__(self, home: Home, series: str, refuse: Refuse) -> None:
        self._home, self._series, self._refuse = home, series, refuse
        self._epoch = home.next_epoch()
        self._target = self._new_target()
        self._target.begin()
        self._reached = self._published()
        self.last = NOTHING
        """The number of the last message that was added."""
        self.rows = 0
        """Messages that are published, by this attempt or before."""

    def _new_target(self) -> StagedTarget:
        return StagedTarget(self._home.path, self._home, self._epoch, CHUNK_BYTES, self._refuse)

    def _published(self) -> int:
        found = self._home.ask("stage.writer", self._home.access.retry_s)["writer"]
        return int(found["batch"]) if found and found["series"] == self._series else NOTHING

    def has(self, number: int) -> bool:
        """Whether the bus already has a message; it is then counted."""
        is_there = number <= self._reached
        self.rows += is_there
        return is_there

    def add(self, message: RowMessage, number: int) -> None:
        """Add a message. Messages with the same number belong to the same group."""
        self._target.add(message)
        self.last = number

    def publish(self) -> None:
        """Send everything added since the last call; it is durable and will be delivered."""
        self._target.flush()
        stage = self._target.stage
        if stage is None:
            return
        self._home.ask(
            "stage.publish",
            self._home.access.retry_s,
            series=self._series,
            epoch=self._epoch,
            batch=self.last,
            stages=[(stage.name, stage.count)],
        )
        self.rows += stage.count
        self._epoch += 1
        self._target = self._new_target()


def forget(home: Home) -> None:
    """Let the bus forget a writer whose replay is over; an unreachable one may keep the name."""
    with contextlib.suppress(BulkError):
        found = home.ask("stage.writer", 0.0)["writer"]
        if found is not None:
            home.ask("stage.drop", 0.0, epoch=found["epoch"], forget=True)
