"""A fresh clone for one page, and a user who reads the page in it.

Owns the directory: links to what the repository holds, the environment that `make install` has
made, and nothing that another page left behind.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from support.groups import GO, JAVA_SDK, JS, RUST
from support.repository import ROOT

READER: Final = Path(__file__).with_name("reader.py")
PAGE_SECONDS_MAX: Final = 1200
NAMESPACES: Final = ("unshare", "-rnpf", "--kill-child", "--mount-proc")

MAKE: Final = """#!/bin/sh
# The tests run after `make install`, so that no page has to wait for it again.
exec {make} -o install "$@"
"""


def make_clone(directory: Path) -> Path:
    """A directory that looks like a clone after `make install`."""
    clone = directory / "clone"
    clone.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in (".venv", ".git", "partibus-data", "build"):
            (clone / entry.name).symlink_to(entry)
    (clone / ".venv").symlink_to(sys.prefix)
    # What `npm install @azure/service-bus` would bring.
    (clone / "node_modules").symlink_to(JS / "node_modules")
    # What Maven would copy, and the module that `go get` would fill.
    (clone / "lib").symlink_to(JAVA_SDK / "build" / "lib")
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO / name, clone)
    # The versions of the crates that are there; the page's own package has a name of its own.
    (clone / "orders").mkdir()
    shutil.copy(RUST / "Cargo.lock", clone / "orders")
    return clone


def read_in(directory: Path, page: str, group: str = "") -> None:
    """Do what a page says, in namespaces of its own; fails where it does not work."""
    clone = make_clone(directory)
    command = [*NAMESPACES, sys.executable, str(READER), page, str(clone), group]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment(directory),
        cwd=clone,
        timeout=PAGE_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def environment(directory: Path) -> dict[str, str]:
    """What a new user has: a home, the tools of the machine, and nothing of ours."""
    tools = directory / "bin"
    tools.mkdir()
    wrapper = tools / "make"
    wrapper.write_text(MAKE.format(make=shutil.which("make")), encoding="utf-8")
    wrapper.chmod(0o755)
    home = directory / "user"
    home.mkdir()
    kept = ("LANG", "JAVA_HOME")
    caches = {name: _go_cache(name) for name in ("GOMODCACHE", "GOCACHE")}
    return {
        "HOME": str(home),
        "PYTHONUNBUFFERED": "1",  # as on a terminal
        "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # quick for a short life
        "PATH": f"{tools}:{_without_environment(os.environ['PATH'])}",
        **{name: os.environ[name] for name in kept if name in os.environ},
        **caches,
        **_rust_caches(),
    }


def _rust_caches() -> dict[str, str]:
    """The crates that `make install` has loaded and built, and how it built them."""
    home = Path.home()
    return {
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(home / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TARGET_DIR": str(RUST / "build"),
        "CARGO_PROFILE_DEV_DEBUG": "false",
        "CARGO_PROFILE_DEV_INCREMENTAL": "false",
    }


def _go_cache(name: str) -> str:
    """Where the packages are that `make install` has loaded and built; a page has no network."""
    if shutil.which("go") is None:
        return ""
    asked = subprocess.run(["go", "env", name], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def _without_environment(path: str) -> str:
    inside = str(Path(sys.prefix, "bin"))
    return ":".join(part for part in path.split(":") if part != inside)
