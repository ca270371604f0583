"""The manifest of a backup: which files it has, and the checksum of each.

Owns its form on disk: a JSON object with the manifest and the SHA-256 of the manifest's bytes, so
that damage to the list itself is found. Knows nothing of where files are. Called by everything that
makes, verifies, prunes or restores backups.
"""

import datetime
import hashlib
import re
import secrets
from typing import Final

import msgspec

from partibus.domain.errors import StoreCorrupt

FORMAT: Final = 1
CATALOG_PLACE: Final = "catalog.db"
KEY_PLACE: Final = "encryption.key"
_PLACE: Final = re.compile(
    r"catalog\.db|encryption\.key|store-[0-9]{1,4}/[0-9A-Za-z][0-9A-Za-z.-]*"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
BACKUP_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}(\.[0-9]{3})?Z-[0-9a-f]{6}")


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file: its path in a data directory, its content, and its stamp in the source.

    A file of the source with the same `stamp` has the same content; without one nothing is known.
    """

    place: str
    length: int
    sha256: str
    stamp: str = ""

    @property
    def store(self) -> int | None:
        """The number of the store that it belongs to."""
        folder, slash, _ = self.place.partition("/")
        return int(folder.removeprefix("store-")) if slash else None


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One backup."""

    format: int
    id: str
    made_at: str
    release: str
    namespace: str
    generation: int
    is_online: bool
    stores: int
    files: list[FileEntry]
    copied_bytes: int
    """The bytes that this backup had to copy; earlier ones had the rest."""

    @property
    def total_bytes(self) -> int:
        """The bytes of all of its files."""
        return sum(file.length for file in self.files)


class _Sealed(msgspec.Struct, forbid_unknown_fields=True):
    sha256: str
    manifest: msgspec.Raw


def new_backup_id(now: datetime.datetime) -> str:
    """An id that sorts by time; two of the same millisecond still differ."""
    return f"{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z-{secrets.token_hex(3)}"


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    content = msgspec.json.encode(manifest)
    return msgspec.json.encode(_Sealed(hashlib.sha256(content).hexdigest(), msgspec.Raw(content)))


def decode_manifest(name: str, data: bytes) -> Manifest:
    """Decode a manifest; StoreCorrupt if anything is wrong with it."""
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
        content = bytes(sealed.manifest)
        if hashlib.sha256(content).hexdigest() != sealed.sha256:
            raise StoreCorrupt(f"{name}: the manifest fails its checksum.")
        form = msgspec.json.decode(content, type=dict[str, msgspec.Raw]).get("format")
        if form is None or bytes(form) != str(FORMAT).encode():
            raise StoreCorrupt(
                f"{name}: the manifest has another format; this release reads {FORMAT}."
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StoreCorrupt(f"{name} is not the manifest of a backup: {error}.") from error
    _check(name, manifest)
    return manifest


def _check(name: str, manifest: Manifest) -> None:
    places = [file.place for file in manifest.files]
    for file in manifest.files:
        is_good = _PLACE.fullmatch(file.place) and _SHA256.fullmatch(file.sha256)
        if not is_good or file.length < 0 or (file.store or 0) >= manifest.stores:
            raise StoreCorrupt(f"{name}: '{file.place}' is not a file of a data directory.")
    if len(set(places)) != len(places) or CATALOG_PLACE not in places:
        raise StoreCorrupt(f"{name}: the catalog is missing, or a file is named twice.")
