"""The records of a query about what it has deferred, in a directory that outlives it.

Owns the files of `claimLocation`: before messages are deferred their numbers and locks are recorded
(`*.intent`), a complete batch is a separate file (`*.claim`), and `run` names the run that may
write here. A file is complete or does not exist. It must never read or write messages.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow.fs as pafs

from pyspark_servicebus.errors import CheckpointError
from pyspark_servicebus.over_amqp.holding import Holding

VERSION: Final = 1
INTENT: Final = ".intent"
CLAIM: Final = ".claim"
RUN: Final = "run"
_NEW: Final = ".new"


class ClaimFiles:
    """One directory: a local path, or an address that Arrow supports (s3://, hdfs://)."""

    def __init__(self, location: str) -> None:
        if "://" in location:
            self._files, self._root = pafs.FileSystem.from_uri(location)
        else:
            self._files, self._root = pafs.LocalFileSystem(), str(Path(location).absolute())
        self._files.create_dir(self._root, recursive=True)

    # --- batches --------------------------------------------------------------------------

    def note(self, name: str, held: Iterable[Holding]) -> None:
        """Write the messages of an intent or a claim, durably."""
        rows = [[one.number, one.byte_count, one.token] for one in held]
        self._write(name, {"v": VERSION, "messages": rows})

    def noted(self, name: str) -> list[Holding] | None:
        """The messages in a file; None when it does not exist."""
        reported = self._read(name)
        if reported is None:
            return None
        if reported.get("v") != VERSION:
            version = reported.get("v")
            raise CheckpointError(
                "CLAIM_RECORD_VERSION",
                f"claimLocation: {name} has version {version}, not {VERSION}. Continue with the "
                "release that wrote it, or a newer one.",
                file=name,
                version=version,
                newest=VERSION,
            )
        return [Holding(*row) for row in reported["messages"]]

    def names(self, *kinds: str) -> list[str]:
        """The files of certain kinds, in the order of their names."""
        selector = pafs.FileSelector(self._root)
        names = [info.base_name for info in self._files.get_file_info(selector)]
        return sorted(name for name in names if name.endswith(kinds))

    def forget(self, name: str) -> None:
        """Remove a file, if it exists."""
        if self._is_there(name):
            self._files.delete_file(self._path(name))

    # --- runs -----------------------------------------------------------------------------

    def take_over(self, run: str, entity: str) -> None:
        """From now on this run writes here; the directory must not belong to another entity."""
        known = self._read(RUN)
        if known is not None and known["entity"] != entity:
            raise CheckpointError(
                "OTHER_ENTITY",
                f"claimLocation: {self._root} belongs to '{known['entity']}'; give '{entity}' a "
                "directory of its own.",
                location=self._root,
                belongsTo=known["entity"],
                entity=entity,
            )
        self._write(RUN, {"run": run, "entity": entity})

    def is_mine(self, run: str) -> bool:
        """Whether no later run has taken over."""
        known = self._read(RUN)
        return known is not None and known["run"] == run

    # --- files ----------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _is_there(self, name: str) -> bool:
        info = self._files.get_file_info(self._path(name))
        return bool(info.type == pafs.FileType.File)

    def _read(self, name: str) -> dict[str, Any] | None:
        if not self._is_there(name):
            return None
        with self._files.open_input_stream(self._path(name)) as stream:
            reported: dict[str, Any] = json.loads(stream.read())
        return reported

    def _write(self, name: str, reported: dict[str, Any]) -> None:
        data = json.dumps(reported, separators=(",", ":")).encode()
        path = self._path(name)
        if isinstance(self._files, pafs.LocalFileSystem):
            _write_here(Path(path), data)
            return
        with self._files.open_output_stream(path + _NEW) as stream:
            stream.write(data)
        self._files.move(path + _NEW, path)


def _write_here(path: Path, data: bytes) -> None:
    """Arrow does not report when a file is on the disk."""
    new = path.with_name(path.name + _NEW)
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
