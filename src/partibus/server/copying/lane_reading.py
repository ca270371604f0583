"""One lane as a copy sees it: its fragments as of its last record, and their bodies.

Owns how fragments are rebuilt from a directory or a database. Encrypted data is decrypted, which
needs the key of the directory. Must never change anything that a server needs. Called by the two
ends of a copy.
"""

from collections.abc import Callable
from typing import Protocol

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.replay import settle_numbers
from partibus.fragment.upkeep.recovering import rebuild
from partibus.fragment.upkeep.whole_snapshot import take_whole, whole_bodies
from partibus.sealing.keys import DataKey
from partibus.server.config import ServeSettings
from partibus.server.data_directory.offline import RebuiltStore
from partibus.store.compaction.importing import Snapshot
from partibus.store.files.checking import StoreUnderCheck
from partibus.store.interface import Recovered, Ref
from partibus.store.sealed import SealedPieces, sealed_pieces


class Readable(Protocol):
    """A directory or a lane of a database under check."""

    @property
    def log_end(self) -> tuple[bytes, int] | None: ...

    def recover(self) -> Recovered: ...

    def bodies(self, refs: list[Ref]) -> list[bytes]: ...

    def close(self) -> None: ...


class LaneReading(RebuiltStore):
    """A lane from its opening to `close`."""

    def __init__(
        self,
        under_check: Readable,
        pieces: SealedPieces | None = None,
        check_held: Callable[[], None] | None = None,
    ) -> None:
        self._under_check = under_check
        self._pieces = pieces
        self._check_held = check_held
        try:
            found = under_check.recover()
            found = found if pieces is None else pieces.recovered(found)
            self._pages = found.pages
            self._rebuilt = rebuild(found)
            super().__init__(self._rebuilt, under_check.log_end)
        except BaseException:
            under_check.close()
            raise
        for state in self.states.values():
            settle_numbers(state)

    @property
    def end(self) -> int:
        """The position after everything that the lane contains."""
        assert self.log_end is not None
        return self.log_end[1]

    def snapshot(self) -> Snapshot:
        """All fragments, as a checkpoint of a log that ends here."""
        return take_whole(self._rebuilt, self._pages, self.end)

    def refs(self) -> list[Ref]:
        """Every body that is needed; shared ones are repeated."""
        return whole_bodies(self._rebuilt)

    def bodies(self, refs: list[Ref]) -> list[bytes]:
        """Bodies in the order asked for; StoreCorrupt names the first that is damaged."""
        pieces = self._pieces
        if pieces is None:
            return self._under_check.bodies(refs)
        found = self._under_check.bodies([pieces.ref(ref) for ref in refs])
        return [pieces.body(ref, body) for ref, body in zip(refs, found, strict=True)]

    def close(self) -> None:
        """Release the place; raises if it was written to in the meantime."""
        try:
            if self._check_held is not None:
                self._check_held()
        finally:
            self._under_check.close()


def read_lane(
    settings: ServeSettings, number: int, owner: str, data_key: DataKey | None = None
) -> LaneReading:
    """The lane with that number, wherever the settings place it."""
    if number in settings.store_databases:
        return _in_database(settings.store_databases[number], number, owner)
    directory = settings.store_directories[number]
    pieces = None if data_key is None else sealed_pieces(directory, data_key.store_sealer(number))
    return LaneReading(StoreUnderCheck(directory), pieces)


def _in_database(dsn: str, number: int, owner: str) -> LaneReading:
    from partibus.store.postgres.checking import LaneUnderCheck
    from partibus.store.postgres.importing import lanes_there

    lane = LaneUnderCheck(dsn, number, owner)
    if number not in lanes_there(dsn, [number]):
        raise StoreCorrupt(
            f"The {lane.name} is missing. Give all databases, in the order in which the servers "
            "were given them; nothing was changed."
        )
    return LaneReading(lane, check_held=lane.check_held)
