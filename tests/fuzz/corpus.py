"""The corpus on disk: the inputs that reach most of a target, and every input that once failed.

Owns the files `corpus/TARGET.txt` and `crashes/TARGET.txt`: one input a line, in base64, so that
a change can be read; lines that begin with # say what an input once did.
"""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CORPUS: Final = HERE / "corpus"
CRASHES: Final = HERE / "crashes"


def kept(name: str) -> list[bytes]:
    """The inputs that are kept for their reach."""
    return _read(CORPUS / f"{name}.txt")


def crashes(name: str) -> list[bytes]:
    """The inputs that once failed."""
    return _read(CRASHES / f"{name}.txt")


def keep(name: str, inputs: Iterable[bytes]) -> None:
    """Keep these inputs, and no others, for their reach; the shortest first."""
    CORPUS.mkdir(exist_ok=True)
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    text = "".join(base64.b64encode(data).decode() + "\n" for data in ordered)
    (CORPUS / f"{name}.txt").write_text(text, encoding="utf-8")


def add_crash(name: str, data: bytes, what: str) -> None:
    """Remember an input that failed, with what it did."""
    if data in crashes(name):
        return
    CRASHES.mkdir(exist_ok=True)
    with (CRASHES / f"{name}.txt").open("a", encoding="utf-8") as file:
        file.write(f"# {what}\n{base64.b64encode(data).decode()}\n")


def write_out(directory: Path, inputs: Iterable[bytes]) -> None:
    """One file for each input, as the fuzzer wants them."""
    directory.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (directory / hashlib.sha256(data).hexdigest()[:20]).write_bytes(data)


def read_in(directory: Path) -> list[bytes]:
    """The inputs in a directory that the fuzzer has filled."""
    return [path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()]


def _read(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [base64.b64decode(line) for line in lines if line and not line.startswith("#")]
