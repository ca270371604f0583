"""Repairs a damaged catalog from its copy.

Owns the replacement of `catalog.db` by `catalog.copy`, which the server writes at its start and its
end. The damaged file is kept. The next start detects what the copy lacks, since the stores have
seen later changes. Called by `partibus store repair`.
"""

from pathlib import Path

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.files.private import sync_directory, write_private
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import adopt
from partibus.server.data_directory.directory import CATALOG_NAME, COPY_NAME
from partibus.server.data_directory.offline import (
    catalog_to_read,
    locked_directory,
    refuse_encrypted,
)

DAMAGED_SUFFIX = ".damaged"


def repair_data(settings: ServeSettings) -> list[str]:
    """Replace a catalog that cannot be read by its copy; returns what was done."""
    file = settings.data / CATALOG_NAME
    copy = settings.data / COPY_NAME
    with locked_directory(settings):
        refuse_encrypted(settings, "repair")
        damage = _damage(file)
        if damage is None:
            return []
        if _damage(copy) is not None:
            raise StoreCorrupt(
                f"{file} is damaged or missing, and so is {copy}: nothing was changed. Restore one "
                "of them; or move both away, and have a catalog made for what the stores hold with "
                f"{adopt(settings)}."
            )
        for suffix in ("", "-wal", "-shm"):
            part = Path(f"{file}{suffix}")
            if part.exists():
                part.replace(f"{part}{DAMAGED_SUFFIX}")
        sync_directory(settings.data)
        write_private(file, copy.read_bytes())
    return [
        damage,
        f"{file} is {copy} from now on; the damaged one is {file}{DAMAGED_SUFFIX}",
        f"if the next start finds it older than the stores, continue with {adopt(settings)}",
    ]


def _damage(file: Path) -> str | None:
    if not file.exists() or not file.stat().st_size:
        return f"{file} is missing or empty"
    try:
        with catalog_to_read(file):
            return None
    except BusError as error:
        return f"{file} is damaged: {error.__cause__ or error.text}"
