"""Root file systems for FROM: those of Debian by debootstrap, made once and kept.

Owns the directory in which they are kept. `debian:SUITE` and `debian:SUITE-slim` become the
minimal variant of that suite, which is what those images are made of; `scratch` is empty. Any other
base is refused, since there is no registry to ask.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

MIRROR: Final = "http://deb.debian.org/debian"
AS_IN_THE_IMAGE: Final = {
    "etc/dpkg/dpkg.cfg.d/docker-apt-speedup": "force-unsafe-io\n",
    "etc/apt/apt.conf.d/docker-no-languages": 'Acquire::Languages "none";\n',
}
"""What Debian's image has besides the packages: without it dpkg syncs each file by itself, which
took most of the time of a build on a busy disk."""
_DEBIAN: Final = re.compile(r"debian:([a-z]+)(?:-slim)?")


class BaseError(RuntimeError):
    """A base that is not available here."""


def base_root(name: str, kept: Path) -> Path | None:
    """The root file system of a base, to be copied and not changed; None for `scratch`."""
    if name == "scratch":
        return None
    found = _DEBIAN.fullmatch(name)
    if found is None:
        raise BaseError(f"FROM {name}: only debian:SUITE and scratch work without a registry")
    root = kept / f"debian-{found[1]}-{platform.machine()}"
    if not root.is_dir():
        _debootstrap(found[1], root)
    return root


def _debootstrap(suite: str, root: Path) -> None:
    """The directory gets its name only when it is complete.

    debootstrap mounts `/proc` in it, in a mount namespace that ends with debootstrap even when it
    is killed. Otherwise removing the directory later would remove the contents of `/proc`."""
    command = shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin")
    if command is None:
        raise BaseError("debootstrap is not installed. Install it: apt-get install debootstrap")
    made = root.with_name(f"{root.name}.new")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    log = root.with_name(f"{root.name}.log")
    with log.open("wb") as output:
        done = subprocess.run(
            ["unshare", "--mount", command, "--variant=minbase", suite, made, MIRROR],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"DPKG_FORCE": "unsafe-io"},
            check=False,
        )
    if done.returncode:
        raise BaseError(f"debootstrap failed; {log} says why")
    for name, text in AS_IN_THE_IMAGE.items():
        (made / name).write_text(text, encoding="ascii")
    made.rename(root)
