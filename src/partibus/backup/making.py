"""Making a backup: new files are copied from a source, known ones are reused.

Owns the comparison with earlier backups and the order of writing: objects first, the manifest last.
The source provides the files: a running server, or the data directory of a stopped one. Called by
`partibus backup`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from partibus import __version__
from partibus.backup.manifest import CATALOG_PLACE, FORMAT, FileEntry, Manifest
from partibus.backup.repository import Advance, Repository
from partibus.domain.errors import ConfigError, StoreCorrupt, StoreUnavailable


@dataclass(slots=True, frozen=True)
class SourceFile:
    """A file that the source offers."""

    place: str
    length: int
    stamp: str = ""


@dataclass(slots=True)
class Description:
    """What there is to back up, at one moment."""

    id: str
    made_at: str
    namespace: str
    generation: int
    is_online: bool
    stores: int
    files: list[SourceFile] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    """Small files, by their path, that came with the description."""


class Source(Protocol):
    """Where the files come from."""

    def described(self) -> AbstractContextManager[Description]:
        """What there is to back up, which is kept until the end of the block."""
        ...

    def chunks(self, file: SourceFile) -> Iterator[bytes]:
        """The content of a file, verified when all of it was read."""
        ...


class Plan:
    """What must be copied, and what an earlier backup already has."""

    def __init__(self, repository: Repository, description: Description) -> None:
        self._repository = repository
        self.description = description
        self._known = self._stamps()
        self.kept: list[FileEntry] = []
        self.missing: list[SourceFile] = []
        for file in description.files:
            known = self._known.get((file.place, file.stamp)) if file.stamp else None
            if known is not None and known.length == file.length:
                self.kept.append(known)
            else:
                self.missing.append(file)

    @property
    def missing_bytes(self) -> int:
        """The bytes that must be copied."""
        inline = sum(map(len, self.description.contents.values()))
        return inline + sum(file.length for file in self.missing)

    def _stamps(self) -> dict[tuple[str, str], FileEntry]:
        """The files of earlier backups that are still intact, by path and stamp."""
        found: dict[tuple[str, str], FileEntry] = {}
        for name in self._repository.ids():
            try:
                manifest = self._repository.manifest(name)
            except StoreCorrupt:
                continue  # verify reports it; its files are copied again
            if manifest.namespace != self.description.namespace:
                raise ConfigError(
                    f"{self._repository.directory} holds backups of another namespace "
                    f"({manifest.namespace}); give each namespace its own directory."
                )
            for file in manifest.files:
                if file.stamp and self._repository.has(file.sha256, file.length):
                    found[file.place, file.stamp] = file
        return found


def carry_out(plan: Plan, repository: Repository, source: Source, advance: Advance) -> Manifest:
    """Copy what is missing; the backup exists when this returns."""
    description = plan.description
    copied: list[FileEntry] = []
    for file in plan.missing:
        sha256, length = repository.add(source.chunks(file), advance)
        if length != file.length:
            raise StoreUnavailable(f"{file.place}: only {length} of {file.length} bytes arrived.")
        copied.append(FileEntry(file.place, length, sha256, file.stamp))
    for place, content in description.contents.items():
        sha256, length = repository.add([content], advance)
        copied.append(FileEntry(place, length, sha256))
    files = sorted([*plan.kept, *copied], key=lambda file: file.place)
    assert any(file.place == CATALOG_PLACE for file in files), "a backup without a catalog"
    manifest = Manifest(
        format=FORMAT,
        id=description.id,
        made_at=description.made_at,
        release=__version__,
        namespace=description.namespace,
        generation=description.generation,
        is_online=description.is_online,
        stores=description.stores,
        files=files,
        copied_bytes=plan.missing_bytes,
    )
    repository.put_manifest(manifest)
    return manifest
