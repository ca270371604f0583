"""The folder or bucket that captures are written to, and its operations.

Owns the filesystem for a path or a URI (local paths, and what Arrow supports: s3, gs, abfs, hdfs),
texts that are written completely or not at all, and moves that may be repeated. Everything of ours
that is not data is under `_capture`, which readers of Parquet ignore.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs as fs

from pyspark_servicebus.pipelines.capture.template import OWN
from pyspark_servicebus.pipelines.run.one_process import in_one_process
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.state import write_atomically


class Lake:
    """A target. Paths are relative to it, with slashes."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.is_local = "://" not in uri or uri.startswith("file:")
        try:
            if self.is_local:
                root = uri.removeprefix("file://").removeprefix("file:")
                self.root = str(Path(root).expanduser().absolute())
                self._files: fs.FileSystem = fs.LocalFileSystem()
            else:
                self._files, self.root = fs.FileSystem.from_uri(uri)
        except (ValueError, OSError) as error:
            raise SettingsError(f"target: '{uri}' cannot be opened: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Lake, (self.uri,)

    def __repr__(self) -> str:
        return f"Lake({self.uri})"

    def full(self, path: str) -> str:
        """A path as the filesystem uses it."""
        return f"{self.root}/{path}" if path else self.root

    def url(self, path: str) -> str:
        """A path as Spark and others use it."""
        return self.full(path) if self.is_local else f"{self.uri.rstrip('/')}/{path}"

    # --- texts ----------------------------------------------------------------------------

    def read_json(self, path: str) -> dict[str, Any] | None:
        """A JSON file that was written here; None if it does not exist."""
        try:
            with self._files.open_input_stream(self.full(path)) as stream:
                found: dict[str, Any] = json.loads(stream.read())
                return found
        except FileNotFoundError:
            return None

    def write_json(self, path: str, table: dict[str, Any]) -> None:
        """Write a JSON file: completely and durably, or not at all."""
        text = json.dumps(table, indent=1) + "\n"
        if self.is_local:
            write_atomically(Path(self.full(path)), text)
            return
        with self._files.open_output_stream(self.full(path)) as stream:  # an object appears whole
            stream.write(text.encode())

    # --- files ----------------------------------------------------------------------------

    def open_output(self, path: str) -> Any:
        """A new file; its folder is made."""
        self._files.create_dir(self.full(path).rpartition("/")[0], recursive=True)
        return self._files.open_output_stream(self.full(path))

    def open_input(self, path: str) -> Any:
        return self._files.open_input_file(self.full(path))

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type != fs.FileType.NotFound)

    def size(self, path: str) -> int:
        """The bytes of a file."""
        return int(self._info(path).size or 0)

    def names(self, folder: str) -> list[str]:
        """The files directly in a folder, in order; empty when there is no such folder."""
        return self._listed(folder, fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        """The folders directly in a folder, in order."""
        return self._listed(folder, fs.FileType.Directory)

    def _listed(self, folder: str, kind: fs.FileType) -> list[str]:
        chosen = fs.FileSelector(self.full(folder), allow_not_found=True)
        found = self._files.get_file_info(chosen)
        return sorted(info.base_name for info in found if info.type == kind)

    def paths(self) -> list[str]:
        """Every file except ours, in order, relative to the target."""
        chosen = fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        found = (
            info.path[len(self.root) :].lstrip("/")
            for info in self._files.get_file_info(chosen)
            if info.type == fs.FileType.File
        )
        return sorted(path for path in found if not is_hidden(path))

    def move(self, source: str, target: str) -> None:
        """Give a file its final name; ignored if it was already moved."""
        if not self.exists(source):
            if self.exists(target):
                return
            raise PipelineFailed(
                f"'{self.url(source)}' disappeared before it was moved into place: did somebody "
                "clean up "
                f"'{OWN}'? The window has to be captured again from the bus."
            )
        self._files.create_dir(self.full(target).rpartition("/")[0], recursive=True)
        self._files.move(self.full(source), self.full(target))

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_file(self.full(path))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with its contents, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self.full(folder))

    def sync(self, path: str) -> None:
        """Make a file durable, where that is necessary."""
        if self.is_local:
            descriptor = os.open(self.full(path), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Keep other processes of this machine from doing the same to this target."""
        if not self.is_local:
            yield
            return
        file = Path(self.full(f"{OWN}/{what}.lock"))
        refusal = f"another process runs a {what} in '{self.uri}'; wait until it has ended."
        with in_one_process(file, refusal):
            yield

    def _info(self, path: str) -> fs.FileInfo:
        [info] = self._files.get_file_info([self.full(path)])
        return info


def is_hidden(path: str) -> bool:
    """Whether readers of Parquet ignore a path."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))
