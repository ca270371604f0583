"""Archives that tests unpack: data directories of older releases, and our own packages."""

import tarfile
from pathlib import Path
from typing import Any


def unpack(archive: Path, place: Path) -> None:
    """Put its files below a directory."""
    # Pythons before 3.11.4 have no filters, and later ones want one.
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(archive) as files:
        files.extractall(place, **safe)  # noqa: S202 - made by ourselves
