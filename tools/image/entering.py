"""The first program of a container: it mounts, becomes the user, and becomes the image's program.

Owns the few system calls between `unshare` and the program of the image. Run as
`unshare --mount python entering.py PLAN` with the plan of `image.container` as JSON; it imports
nothing of ours, since it may be started from anywhere.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

DEVICES: Final = ("full", "null", "random", "urandom", "zero")
PR_SET_NO_NEW_PRIVS: Final = 38


def enter(plan: dict[str, Any]) -> None:
    """Mount, become the user, and become the program; in this process's own mount table."""
    root = Path(plan["root"])
    _mount("--bind", root, root)
    if plan["read_only"]:
        _mount("--options", "remount,ro,bind", root)
    _mount("--types", "proc", "proc", root / "proc")
    _mount("--types", "tmpfs", "--options", "mode=1777", "none", root / "tmp")
    _mount("--types", "tmpfs", "none", root / "dev")
    for name in DEVICES:
        (root / "dev" / name).touch()
        _mount("--bind", Path("/dev", name), root / "dev" / name)
    for place, source in plan["binds"].items():
        _mount("--bind", source, root / place.lstrip("/"))
    os.chroot(root)
    os.chdir(plan["workdir"])
    _become(plan["user"])
    os.execvpe(plan["words"][0], plan["words"], plan["env"])  # noqa: S606 - the image's own words


def _mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True)


def _become(user: str) -> None:
    uid, _, gid = user.partition(":")
    os.setgroups([])
    os.setgid(int(gid or uid))
    os.setuid(int(uid))
    if ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError("no_new_privs was refused")


if __name__ == "__main__":
    enter(json.loads(sys.argv[1]))
