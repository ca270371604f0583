"""Backups of a running server: every store and the catalog as of one moment.

Owns the moment and how long files are kept. All workers pin their stores, so that no file is
removed; then all of them freeze, and while nothing becomes durable anywhere the catalog is read;
then all continue. Each store then has what a power loss at that moment would have left, so
forwarding, transactions and deletions between stores recover from a restore as from a crash. The
client reads the files by requests that each extend the time limit; a reader that vanishes, or a
disk that fills up, ends it. Called by the HTTP side (`ops.admin.backup`).
"""

import asyncio
import base64
import contextlib
import datetime
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from partibus.backup.manifest import new_backup_id
from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.image import CatalogImage, catalog_image
from partibus.control.catalog.sealed import SealedCatalog
from partibus.domain.clock import Clock
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityNotFound,
    InvalidOperation,
    OperationTimeout,
    StoreUnavailable,
)
from partibus.domain.scheduler import Scheduler, Timer
from partibus.fragment.broker import Broker
from partibus.sealing.keys import KEY_FILE_NAME
from partibus.server.config import ServeSettings
from partibus.store.files.capture import Capture
from partibus.store.files.log import SegmentStore
from partibus.store.sealed import SealedStore

PIN: Final = "backup.pin"
FREEZE: Final = "backup.freeze"
THAW: Final = "backup.thaw"
FILES: Final = "backup.files"
RENEW: Final = "backup.renew"
RELEASE: Final = "backup.release"

LEASE_MS: Final = 60_000
"""How long files are kept after the last request for one."""
LOOK_MS: Final = 1_000
FREEZE_MS_MAX: Final = 1_000
"""A frozen store continues by itself after this time, even if its freezer is gone."""
FREEZE_TRIES_MAX: Final = 5

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Holding:
    """The current backup, as far as the stores of this process are concerned."""

    name: str
    deadline_ms: int
    captures: dict[int, Capture] = field(init=False, default_factory=dict)
    lengths: dict[tuple[int, str], int] = field(init=False, default_factory=dict)
    """What may be read, by store and name."""


class BackupService:
    """Makes backups possible; one at a time."""

    def __init__(
        self,
        settings: ServeSettings,
        catalog_file: Path | None,
        brokers: Mapping[int, Broker],
        control: ControlHub,
        clock: Clock,
        scheduler: Scheduler,
        encrypted: SealedCatalog | None = None,
    ) -> None:
        self._settings = settings
        self._catalog_file = catalog_file
        self._encrypted = encrypted
        self._stores: dict[int, SegmentStore] = {}
        for number, broker in brokers.items():
            # An encrypted store is backed up as it is on disk.
            store = broker.store.inner if isinstance(broker.store, SealedStore) else broker.store
            if isinstance(store, SegmentStore):
                self._stores[number] = store
        self._control = control
        self._now_ms = clock.monotonic_ms
        self._scheduler = scheduler
        self._holding: Holding | None = None
        self._looking: Timer | None = None
        self._thawing: Timer | None = None
        self._why_over = "it was never begun, its time is up, or the server was restarted"
        for name, handler in (
            (PIN, self._pin),
            (FREEZE, self._freeze),
            (THAW, self._thaw),
            (FILES, self._files),
            (RENEW, self._renew),
            (RELEASE, self._release),
        ):
            control.register(name, handler)

    def stop(self) -> None:
        """The server stops: files are no longer kept."""
        self._let_go("the server was stopped", waits=True)

    # --- this worker ----------------------------------------------------------------------

    def _pin(self, payload: Payload) -> Payload:
        if self._holding is not None:
            raise InvalidOperation(
                f"The backup {self._holding.name} is being made; try again when it has finished. A "
                f"backup whose reader has gone is abandoned after {LEASE_MS // 1000} seconds."
            )
        for number in self._settings.store_databases:
            raise InvalidOperation(
                f"Store {number} is the {self._settings.store_name(number)}, which this backup "
                "cannot include: back up the database with its own tools, or copy everything into "
                "a directory with `partibus store copy` while no server runs."
            )
        for number, store in self._stores.items():
            if store.shortage is not None:
                raise StoreUnavailable(
                    f"The disk of store {number} is almost full; a backup would keep it full. "
                    "Free space, and try again."
                )
        for store in self._stores.values():
            store.pin()
        self._holding = Holding(payload["id"], self._now_ms() + LEASE_MS)
        self._looking = self._scheduler.call_later_ms(LOOK_MS, self._look)
        return {}

    def _freeze(self, payload: Payload) -> Payload:
        holding = self._held(payload["id"])
        self._thaw_all()
        try:
            for number, store in self._stores.items():
                holding.captures[number] = store.freeze()
        except (BusError, OSError) as error:
            self._thaw_all()
            _log.warning("a backup failed: %s", error)
            raise StoreUnavailable(
                f"Store {number} is down; make the backup when it is up again."
            ) from error
        self._thawing = self._scheduler.call_later_ms(FREEZE_MS_MAX, self._thaw_all)
        return {}

    def _thaw(self, payload: Payload) -> Payload:
        """Continue; returns whether nothing has become durable since the freeze."""
        self._held(payload["id"])
        is_whole = self._thawing is not None
        self._thaw_all()
        return {"is_whole": is_whole}

    def _thaw_all(self) -> None:
        if self._thawing is not None:
            self._thawing.cancel()
            self._thawing = None
        for store in self._stores.values():
            store.thaw()

    def _files(self, payload: Payload) -> Payload:
        """The captured files."""
        holding = self._held(payload["id"])
        reported: dict[str, Any] = {}
        for number, capture in holding.captures.items():
            files = capture.files(self._settings.store_directories[number])
            holding.lengths.update({(number, file.name): file.length for file in files})
            reported[str(number)] = {
                "store_id": capture.store_id.hex(),
                "position": capture.position,
                "durable": base64.b64encode(capture.watermark).decode("ascii"),
                "files": [[file.name, file.length, file.stamp] for file in files],
            }
        return reported

    def _renew(self, payload: Payload) -> Payload:
        """Extend the time limit; returns how much of a file there is, if it is one of ours."""
        holding = self._held(payload["id"])
        holding.deadline_ms = self._now_ms() + LEASE_MS
        return {"length": holding.lengths.get((payload["store"], payload["name"]))}

    def _release(self, payload: Payload) -> Payload:
        self._held(payload["id"])
        self._let_go("it was ended by its client")
        return {}

    def _held(self, name: str) -> Holding:
        if self._holding is None or self._holding.name != name:
            raise InvalidOperation(f"The backup {name} has ended: {self._why_over}. Begin another.")
        return self._holding

    def _look(self) -> None:
        """End a backup that is no longer read, or that would fill the disk."""
        holding = self._holding
        assert holding is not None
        short = [number for number, s in self._stores.items() if s.shortage is not None]
        if short:
            self._let_go(f"the disk of store {short[0]} is almost full")
        elif self._now_ms() > holding.deadline_ms:
            self._let_go(f"nothing was read for {LEASE_MS // 1000} seconds")
        else:
            self._looking = self._scheduler.call_later_ms(LOOK_MS, self._look)

    def _let_go(self, why: str, *, waits: bool = False) -> None:
        if self._holding is None:
            return
        _log.info("the backup %s has ended: %s", self._holding.name, why)
        self._holding = None
        self._why_over = why
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._thaw_all()
        if waits:
            self._unpin()
        else:
            # Deleting what was pinned may take a while.
            asyncio.get_running_loop().run_in_executor(None, self._unpin)

    def _unpin(self) -> None:
        for number, store in self._stores.items():
            try:
                store.unpin()
            except OSError as error:
                # The remaining files are not needed; the next start removes them.
                _log.warning("store %d: obsolete files remain: %r", number, error)

    # --- all workers ----------------------------------------------------------------------

    async def begin(self) -> Payload:
        """Capture everything at one moment; returns what there is to read."""
        if self._settings.memory or self._catalog_file is None:
            raise ArgumentError("This server keeps everything in memory: nothing can be backed up.")
        now = datetime.datetime.now(datetime.UTC)
        name = new_backup_id(now)
        try:
            await self._ask_all(PIN, {"id": name})
            image = await self._capture(name, self._catalog_file)
            answers = await self._ask_all(FILES, {"id": name})
        except BaseException:
            await self._end(name)
            raise
        stores = {number: reported for answer in answers for number, reported in answer.items()}
        return {
            "id": name,
            "made_at": now.isoformat(timespec="seconds"),
            "namespace": image.namespace,
            "generation": image.generation,
            "catalog": base64.b64encode(image.content).decode("ascii"),
            "encryption_key": self._key_file(),
            "stores": stores,
            "lease_seconds": LEASE_MS // 1000,
        }

    async def _capture(self, name: str, file: Path) -> CatalogImage:
        """The catalog, read while every store was frozen; tried again if one continued."""
        for _ in range(FREEZE_TRIES_MAX):
            try:
                await self._ask_all(FREEZE, {"id": name})
                image = await asyncio.to_thread(self._image, file)
            finally:
                thawed = await self._ask_all(THAW, {"id": name})
            if all(answer["is_whole"] for answer in thawed):
                return image
        raise OperationTimeout("The stores could not be paused at the same moment; try again.")

    def _image(self, file: Path) -> CatalogImage:
        if self._encrypted is None:
            return catalog_image(file)
        with self._encrypted.turn():
            found = catalog_image(self._encrypted.working)
            return CatalogImage(self._encrypted.image(), found.namespace, found.generation)

    def _key_file(self) -> str | None:
        """The data key, sealed with the user's; a restored copy is opened with the same."""
        if self._encrypted is None:
            return None
        content = (self._settings.data / KEY_FILE_NAME).read_bytes()
        return base64.b64encode(content).decode("ascii")

    async def file(self, name: str, store: int, file: str) -> tuple[Path, int]:
        """Where a file is, and how much of it to read; the time limit starts again."""
        answers = await self._ask_all(RENEW, {"id": name, "store": store, "name": file})
        lengths = [answer["length"] for answer in answers if answer["length"] is not None]
        if not lengths:
            raise EntityNotFound(f"The backup {name} has no file {file} of store {store}.")
        return self._settings.store_directories[store] / file, lengths[0]

    async def renew(self, name: str) -> None:
        """The backup is still being read."""
        await self._ask_all(RENEW, {"id": name, "store": -1, "name": ""})

    async def end(self, name: str) -> Payload:
        """The client has the whole backup, or gave up."""
        await self._ask_all(RELEASE, {"id": name})
        return {}

    async def _end(self, name: str) -> None:
        with contextlib.suppress(BusError):
            await self._control.ask_all(RELEASE, {"id": name})

    async def _ask_all(self, question: str, payload: Payload) -> list[Payload]:
        """Every worker's answer; the first refusal when not all of them give one."""
        asked = [self._control.ask(w, question, payload) for w in self._control.workers]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: list[Payload] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found.append(answer)
        return found
