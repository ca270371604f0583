"""What the settings of a pipeline can read of a declared file.

Owns the interface between the reader of the file and settings that are written in sections of
their own, or under other names.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

Places = Mapping[str, tuple[tuple[str, ...], ...]]
"""Where a file has a setting, if not under its own name in the section of the kind."""


class Sections(Protocol):
    """A declared file, as the settings of its pipeline see it."""

    name: str
    """That of the pipeline."""
    folder: Path
    """Where the file is; its relative paths begin there."""
    state_dir: Path | None

    def section(self, key: str) -> Mapping[str, Any]:
        """A table of the file; empty if it is missing."""
        ...

    def value(self, key: str) -> Any:
        """What stands under a key of the file; None if it is missing."""
        ...

    def complain(self, text: str, *path: str | int) -> None:
        """Report an error at the line of this path, and go on."""
        ...


def place_beside(folder: Path, path: str) -> str:
    """A path relative to a folder, or a URI unchanged."""
    return path if "://" in path else str((folder / Path(path).expanduser()).absolute())
