"""Starts an image without an engine: with its root, user, environment and its own mounts.

Owns what an engine adds to an image: the container's own root, /proc and /dev, volumes and single
files from outside, a root that cannot be written to, no new privileges. The process that is started
becomes the image's own, so that signals reach it. Networks are made by the caller: a test makes one
and starts both sides in it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from image.building import Image, copy_root, inside

ENTERING: Final = Path(__file__).with_name("entering.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """How an image is to run, and the directory that is its root."""

    image: Image
    root: Path
    command: Sequence[str] = ()
    """Instead of the image's own CMD."""
    env: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, Path] = field(default_factory=dict)
    """Files and directories of this machine, by their place in the container."""
    user: str = ""
    """Instead of the image's own USER."""
    is_read_only: bool = True
    network: str = ""
    """The name of a network of `ip netns`; without one it is that of the caller."""

    def create(self) -> None:
        """Create its own root, with a file or directory at every path that is mounted on.
        Containers that write nothing to it may share one: the first makes it."""
        if not self.root.exists():
            copy_root(self.image.root, self.root, is_read_only=self.is_read_only)
        for place in ("/proc", "/dev", "/tmp", *self.image.volumes):  # noqa: S108 - of the image
            inside(self.root, place).mkdir(parents=True, exist_ok=True)
        for place, source in self.binds.items():
            inner = inside(self.root, place)
            if source.is_dir():
                inner.mkdir(parents=True, exist_ok=True)
            else:
                inner.parent.mkdir(parents=True, exist_ok=True)
                inner.touch()

    def start(self, **given: Any) -> "subprocess.Popen[str]":
        """Start it; `given` is for Popen."""
        words = [*self.image.entrypoint, *(self.command or self.image.cmd)]
        return subprocess.Popen(self._command(words), text=True, **given)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Another command in the same root, as `docker exec` does; also the health check."""
        command = self._command(words or self.image.healthcheck)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _command(self, words: Sequence[str]) -> list[str]:
        plan = {
            "root": str(self.root),
            "user": self.user or self.image.user,
            "workdir": self.image.workdir,
            "env": {**self.image.env, **self.env},
            "binds": {place: str(source) for place, source in self.binds.items()},
            "read_only": self.is_read_only,
            "words": list(words),
        }
        entering = ["unshare", "--mount", sys.executable, str(ENTERING), json.dumps(plan)]
        if not self.network:
            return entering
        return ["nsenter", f"--net=/run/netns/{self.network}", *entering]
