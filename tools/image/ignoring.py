"""The build context: the files of the repository that COPY may see, and their digest.

Owns the patterns of a .dockerignore as far as ours uses them: names at the top, `!` for exceptions,
and `**/` for names at any depth; the last pattern that matches decides. Used by `image.building`.
"""

import fnmatch
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path


def is_ignored(name: str, patterns: str) -> bool:
    """Whether a file, by its path in the context, is left out."""
    verdict = False
    for pattern in patterns.splitlines():
        pattern = pattern.strip()
        if not pattern or pattern.startswith("#"):
            continue
        is_exception = pattern.startswith("!")
        if _fits(name, pattern.removeprefix("!")):
            verdict = not is_exception
    return verdict


def _fits(name: str, pattern: str) -> bool:
    parts = name.split("/")
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatch(part, pattern[3:]) for part in parts)
    return fnmatch.fnmatch(parts[0], pattern)


def context_files(context: Path, source: str, patterns: str) -> Iterator[Path]:
    """The files that one source of COPY names, sorted."""
    start = context / source
    found = [start] if start.is_file() else sorted(start.rglob("*"))
    for path in found:
        if path.is_file() and not is_ignored(path.relative_to(context).as_posix(), patterns):
            yield path


def digest_of(context: Path, sources: Sequence[str], patterns: str) -> str:
    """What a COPY depends on."""
    digest = hashlib.sha256()
    for source in sources:
        for path in context_files(context, source, patterns):
            name = path.relative_to(context).as_posix()
            digest.update(f"{name}\0{path.stat().st_mode & 0o777}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def copy_context(
    context: Path, sources: Sequence[str], target: Path, is_folder: bool, patterns: str
) -> None:
    """Files go by their own name into a folder; of a folder the contents go, not the folder."""
    for source in sources:
        start = context / source
        files = list(context_files(context, source, patterns))
        if not files:
            raise FileNotFoundError(f"COPY {source}: nothing in the build context matches")
        for path in files:
            if start.is_file():
                place = target / path.name if is_folder else target
            else:
                place = target / path.relative_to(start)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
            if os.geteuid() == 0:
                os.chown(place, 0, 0)
