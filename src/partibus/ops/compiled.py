"""Whether the hot modules are compiled, and which of them are older than their source.

In a working copy a compiled module runs in place of its source, so an edit without a new `make
install` would silently have no effect. Owns the comparison; it checks only files, so that it is
cheap enough for every start. Installed packages are never edited and are left out. Called by the
`serve` and `version` verbs, the benchmarks and the tidiness tests.
"""

import logging
import sys
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

REMEDY: Final = "run `make install` to compile again, or `make clean-compiled` to run the sources"


PACKAGE: Final = Path(__file__).resolve().parents[1]


def is_compiled() -> bool:
    """Whether this Python runs the hot modules compiled: all of them are, or none."""
    return next(PACKAGE.rglob(f"*{EXTENSION_SUFFIXES[0]}"), None) is not None


def source_of(compiled: Path) -> Path:
    """The source of a compiled file: `link.py` of `link.cpython-311-x86_64-linux-gnu.so`."""
    return compiled.with_name(compiled.name.partition(".")[0] + ".py")


def outdated(compiled: Iterable[Path]) -> list[Path]:
    """The sources among these that have changed since they were compiled."""
    found: list[Path] = []
    for path in compiled:
        source = source_of(path)
        if source.exists() and source.stat().st_mtime > path.stat().st_mtime:
            found.append(source)
    return sorted(found)


def loaded() -> list[Path]:
    """Our compiled modules that this process runs from a working copy."""
    files = [
        getattr(module, "__file__", None) or ""
        for name, module in list(sys.modules.items())
        if name.startswith("partibus.")
    ]
    return [Path(file) for file in files if file.endswith(".so") and "site-packages" not in file]


def warn_if_outdated() -> None:
    """Report which modules run in an older form than their source."""
    for source in outdated(loaded()):
        log.warning(
            "%s was changed after it was compiled, and the old form runs: %s", source, REMEDY
        )
