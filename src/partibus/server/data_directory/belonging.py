"""Whether the catalog and the stores of a data directory belong together.

Owns the comparison of what the catalog says (namespace, generation, stores, fragments, tombstones)
with what each store records about itself, and the one-line text of each refusal, which names the
file and the remedy. Nothing is changed before everything matches, and nothing is dropped without a
record of its deletion. Data of releases without a namespace id is accepted if it matches. Called by
the node and the supervision at the start, and by the offline verbs.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import BusError, ConfigError, StoreCorrupt
from partibus.fragment.broker import Broker
from partibus.fragment.upkeep.store_marks import StoreMarks
from partibus.server.config import ServeSettings
from partibus.server.data_directory.seen import Seen, read_seen
from partibus.server.live import in_turn
from partibus.store.compaction.compacted_file import KEPT_SUFFIX
from partibus.store.files.checkpoint import CHECKPOINT_SUFFIX
from partibus.store.files.segment import SEGMENT_SUFFIX
from partibus.store.files.watermark import WATERMARK_NAME

_STORE_SUFFIXES: Final = (SEGMENT_SUFFIX, CHECKPOINT_SUFFIX, KEPT_SUFFIX, WATERMARK_NAME)
UNKNOWN_SHOWN_MAX: Final = 5


def holds_store(directory: Path) -> bool:
    """Whether a directory contains any file of a store."""
    try:
        return any(path.name.endswith(_STORE_SUFFIXES) for path in directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def refuse_lost_catalog(file: Path, settings: ServeSettings) -> None:
    """A new catalog may be created only where all stores are empty."""
    if file.exists() and file.stat().st_size:
        return
    beside = sorted(settings.data.glob("store-*"))
    for directory in (*settings.store_directories, *beside):
        if holds_store(directory):
            state = "is empty" if file.exists() else "is missing"
            raise StoreCorrupt(
                f"{file} {state}, but {directory} holds a store: its messages cannot be served "
                f"without the catalog that knows them. Put the catalog back, or have one made for "
                f"what the stores hold with {adopt(settings)}; nothing was changed."
            )


def adopt(settings: ServeSettings, more: str = "") -> str:
    """The command that accepts parts that do not belong together."""
    places = "".join(f" --store {place}" for place in settings.store_places)
    count = f" --stores {settings.stores}" if settings.stores > 1 and not places else ""
    return f"`partibus store adopt --data {settings.data}{places}{count}{more}`"


async def begin_stores(catalog: Catalog, brokers: Mapping[int, Broker]) -> None:
    """Mark the stores as belonging here; only after that the catalog expects them."""
    namespace = catalog.identity.namespace()
    assert namespace is not None
    for number, broker in brokers.items():
        if not broker.marks.namespace:
            broker.marks.identify(namespace, number)
            broker.marks.follow(catalog.generation)
            await _write_marks(broker)
        broker.marks.follow(catalog.generation)
    begun = [number for number in brokers if number not in catalog.identity.stores()]

    async def expect() -> None:
        with catalog.identify() as identity:
            for number in begun:
                identity.add_store(number)
            identity.advance()

    if begun:
        await in_turn(expect)


async def _write_marks(broker: Broker) -> None:
    reported: asyncio.Future[BusError | None] = asyncio.get_running_loop().create_future()
    broker.write_marks(reported.set_result)
    error = await reported
    if error is not None:
        raise error


def known_fragments(catalog: Catalog, number: int) -> set[int]:
    """The fragments that the catalog has in a store: of entities, and those being deleted."""
    placed = {p.fragment_id for r in catalog.entities() for p in r.fragments if p.store == number}
    return placed | {f for f, store in catalog.identity.tombstones().items() if store == number}


class Held(Protocol):
    """What a store records about itself and its fragments: a broker, or a store read offline."""

    @property
    def marks(self) -> StoreMarks: ...

    def strangers(self) -> list[int]: ...

    def stranger_bodies(self, fragment_id: int) -> int: ...

    @property
    def log_end(self) -> tuple[bytes, int] | None: ...


class Belonging:
    """The catalog's side of the comparison; the catalog is open and unchanged."""

    def __init__(self, file: Path, settings: ServeSettings, catalog: Catalog) -> None:
        self._file = file
        self._settings = settings
        self._catalog = catalog
        self._identity = catalog.identity

    # --- before a store is opened ---------------------------------------------------------

    def check_places(self) -> None:
        """Every store that the catalog knows has its directory, and it is not empty."""
        known = self._identity.stores()
        directories = self._settings.store_directories
        if known and known[-1] >= len(directories):
            raise ConfigError(
                f"{self._file} knows store {known[-1]}, but the server has {len(directories)} "
                "store(s), numbered from 0. Start it with all the stores it had, or give up those "
                f"that hold no entity with {adopt(self._settings)}."
            )
        begun = set(known)
        if self._identity.namespace() is None:  # of an earlier release, which recorded no stores
            begun = {p.store for r in self._catalog.entities() for p in r.fragments}
        # Stores in a database are compared when they are open.
        for number in sorted(begun.difference(self._settings.store_databases)):
            self._check_begun(number, directories[number])

    def _check_begun(self, number: int, directory: Path) -> None:
        if holds_store(directory):
            return
        state = "is empty" if directory.exists() else "is missing"
        raise StoreCorrupt(
            f"{directory} {state}, but {self._file} says that store {number} of the namespace is "
            "there. Mount its disk or put the directory back; if it is lost for good, start it "
            f"again, empty, with {adopt(self._settings, f' --lost {number}')}. Nothing was changed."
        )

    # --- when it is open, before anything is written ----------------------------------------

    def check_store(self, number: int, store: Held) -> None:
        """The store is the right one, and the catalog knows all fragments in it."""
        directory = Path(self._settings.store_name(number))
        marks = store.marks
        if marks.namespace:
            self._check_namespace(directory, marks.namespace)
            if marks.number != number:
                raise StoreCorrupt(
                    f"{directory} is store {marks.number} of the namespace and was given as store "
                    f"{number}: put the directories, or the --store flags, back in their order. "
                    "Nothing was changed."
                )
            self._check_age(directory, max(marks.generation, self._seen_generation(number)))
            self._check_end(number, directory, store.log_end)
        elif not marks.is_blank and self._identity.namespace() is not None:
            raise self._foreign(directory, "does not say which server it belongs to")
        elif number in self._identity.stores():
            raise self._foreign(directory, "is a new, empty store")
        self._check_fragments(number, directory, store)

    def _check_namespace(self, directory: Path, namespace: bytes) -> None:
        own = self._identity.namespace()
        if own is None:
            raise self._foreign(
                directory, f"belongs to namespace {namespace.hex()}, the catalog to none"
            )
        if own != namespace:
            raise self._foreign(
                directory, f"belongs to namespace {namespace.hex()}, the catalog to {own.hex()}"
            )

    def _foreign(self, directory: Path, why: str) -> StoreCorrupt:
        return StoreCorrupt(
            f"{directory} does not belong to {self._file}: it {why}. Put the right one back, or "
            f"join the two with {adopt(self._settings)}; nothing was changed."
        )

    def _check_age(self, directory: Path, generation: int) -> None:
        own = self._identity.generation()
        if own < generation:
            raise StoreCorrupt(
                f"{self._file} is older than {directory}: it is at change {own} of the namespace, "
                f"the store at change {generation}. Put the newest catalog back, or "
                f"continue with this one: {adopt(self._settings)}; nothing was changed."
            )

    def _seen_generation(self, number: int) -> int:
        """The generation of the catalog in the notes, even when no store has followed it."""
        seen = self._seen(number)
        return 0 if seen is None else seen.generation

    def _check_end(self, number: int, directory: Path, log_end: tuple[bytes, int] | None) -> None:
        """Nothing that the store had made durable is missing at its end."""
        seen = self._seen(number)
        if seen is None or log_end is None:
            return
        log_id, position = log_end
        if log_id == seen.log_id and position < seen.position:
            raise StoreCorrupt(
                f"{directory} is older than {self._file}: its log ends at {position:#x}, but it "
                f"had reached {seen.position:#x} when the server last ran: what was sent and "
                "received since is missing. Put the newest copy of the directory back, or "
                f"continue with this one: {adopt(self._settings)}; nothing was changed."
            )

    def _seen(self, number: int) -> Seen | None:
        """The note of a store of this namespace."""
        seen = read_seen(self._settings.data, number)
        return seen if seen is not None and seen.namespace == self._identity.namespace() else None

    def _check_fragments(self, number: int, directory: Path, store: Held) -> None:
        sequence = self._identity.fragment_sequence()
        if store.marks.fragment_max > sequence:
            raise StoreCorrupt(
                f"{self._file} is older than {directory}, or of another namespace: its highest "
                f"fragment is {sequence}, but the store has {store.marks.fragment_max}. Put "
                f"the right catalog back, or continue with this one: {adopt(self._settings)}; "
                "nothing was changed."
            )
        unknown = self.unknown(number, store)
        if unknown:
            shown = ", ".join(map(str, unknown[:UNKNOWN_SHOWN_MAX]))
            more = ", ..." if len(unknown) > UNKNOWN_SHOWN_MAX else ""
            count = sum(map(store.stranger_bodies, unknown))
            raise StoreCorrupt(
                f"{directory} holds {len(unknown)} fragment(s) ({shown}{more}; {count} messages) "
                f"that {self._file} does not know and that were never deleted. Put the right "
                f"catalog back, or give them entities with {adopt(self._settings)}; nothing was "
                "changed."
            )

    def unknown(self, number: int, held: Held) -> list[int]:
        """The fragments of the store that have neither an entity nor a tombstone."""
        known = known_fragments(self._catalog, number)
        strangers = (f for f in held.strangers() if f not in known)
        if self._identity.namespace() is None:
            # An earlier release left no tombstones; an empty one was deleted in a crash.
            return sorted(f for f in strangers if held.stranger_bodies(f))
        return sorted(strangers)

    # --- when everything fits ---------------------------------------------------------------

    def drop_deleted(self, number: int, broker: Broker) -> None:
        """Finish deletions that a crash interrupted; all known fragments are served already."""
        strangers = broker.strangers()
        unknown = self.unknown(number, broker)
        if unknown:  # the catalog changed during the start in a way that no release does
            raise StoreCorrupt(f"{self._file} has lost the fragments {unknown} during the start.")
        for fragment_id in strangers:
            broker.drop_stranger(fragment_id)
        for fragment_id, store in self._identity.tombstones().items():
            if store == number and fragment_id not in strangers:
                self._catalog.dropped(fragment_id)
