"""Globs over names and texts, as settings and rules have them.

Owns what matches a glob: the whole text, in any case.
"""

import fnmatch
import functools
import re
from collections.abc import Sequence


def fits_any(globs: Sequence[str], text: str) -> bool:
    """Whether a text matches one of the globs, in any case; no globs match everything."""
    return not globs or _any_of(tuple(globs)).match(text) is not None


@functools.lru_cache(maxsize=1000)
def _any_of(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, globs)), re.IGNORECASE)
