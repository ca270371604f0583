"""A lane that is read while it is not served: for copies and their comparison.

Owns the reading of bodies one after the other without a loop. The lane is taken over as by a
server: its epoch is raised, so that a late writer changes nothing, and an empty entry marks that
point. Nothing else is written. Called by `server.copying`; the same for a directory is
`store.files.checking`.
"""

import contextlib
import queue
from collections.abc import Callable

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.interface import Recovered, Ref
from partibus.store.lane.commit import Fenced
from partibus.store.postgres.lane import Lane
from partibus.store.postgres.store import PostgresStore


class LaneUnderCheck:
    """One lane, from its opening to `close`."""

    def __init__(self, dsn: str, number: int, owner: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._place = (dsn, number, owner)
        self._store = PostgresStore(dsn, number, notify=self._calls.put, owner=owner)

    @property
    def name(self) -> str:
        """Its name in errors."""
        return self._store.name

    def close(self) -> None:
        """Release the lane."""
        self._store.close()

    def recover(self) -> Recovered:
        """What a server would recover; raises StoreCorrupt where one would refuse."""
        return self._store.open()

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log, and its end once all records were read."""
        return self._store.log_end

    def check_held(self) -> None:
        """Raises when the lane has been taken over since it was opened."""
        lane = Lane(*self._place, takes_over=True)
        lane.epoch = self._store.epoch
        with contextlib.closing(lane.connect("read")) as connection:
            try:
                lane.check_epoch(connection)
            except Fenced as error:
                raise StoreUnavailable(
                    f"The {lane.name} was opened by a server while it was copied. Stop all servers "
                    "and begin again."
                ) from error

    def bodies(self, refs: list[Ref]) -> list[bytes]:
        """The bodies in the order asked for; StoreCorrupt names the first that is damaged."""
        answers: list[list[bytes] | BusError] = []
        self._store.read(refs, answers.append)
        while not answers:
            self._calls.get()()
        answer = answers[0]
        if isinstance(answer, BusError):
            raise answer
        return answer
