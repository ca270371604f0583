"""The repository as data: its root, its own files, its Python modules.

What .gitignore names is not the repository's. Used by the tidy tests, and by the tests that
run the examples of the documents.
"""

import fnmatch
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that belongs to the repository, sorted."""
    return tuple(sorted(_walk(ROOT, _ignored_names())))


def text_files(*suffixes: str) -> list[Path]:
    """The repository's files with one of these suffixes ("" is none)."""
    return [path for path in repository_files() if path.suffix in suffixes]


def python_modules(*folders: str) -> list[Path]:
    """The Python files below these top folders."""
    return [path for path in text_files(".py") if path.relative_to(ROOT).parts[0] in folders]


def name_of(path: Path) -> str:
    """The path as test ids and messages show it."""
    return str(path.relative_to(ROOT))


def code_blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of one language in a Markdown document."""
    text = document.read_text(encoding="utf-8")
    return [body for name, body in _BLOCK.findall(text) if name == language]


def _ignored_names() -> list[str]:
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    return [".git", *(line.strip("/") for line in lines if line)]


def _walk(folder: Path, ignored: list[str]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in ignored):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), ignored)
            else:
                yield Path(entry.path)
