"""The sources of the product, even where compiled modules lie beside them.

Coverage is counted in the byte code of Python, which a compiled module does not have. Called
before anything of the product is imported.
"""

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Final

PRODUCT: Final = str(Path(__file__).resolve().parents[2] / "src" / "partibus")


def prefer_sources() -> None:
    """From here on, modules below src/partibus are loaded from their sources."""
    sources = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def hook(path: str) -> FileFinder:
        if not path.startswith(PRODUCT):
            raise ImportError(path)
        return sources(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
