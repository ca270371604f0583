"""A unit file of systemd, and its commands run as systemd would run them, without systemd.

Owns the settings that our units use: the credentials, the state directory, the environment, and the
order of ExecStop and the signal. The confinement is not played; `systemd-analyze` judges it.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def settings_of(file: Path) -> dict[str, list[str]]:
    """By key, the values in their order."""
    found: dict[str, list[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


class UnitProcess:
    """The service of a unit, with what would be below /etc and /var/lib in a directory."""

    def __init__(self, file: Path, place: Path, program: Path, inside: Sequence[str] = ()) -> None:
        """`program` stands for the installed one; `inside` are words before each command."""
        self._settings = settings_of(file)
        self._program = program
        self._place = place
        self._inside = list(inside)
        self._process: subprocess.Popen[str] | None = None
        self.etc = place / "etc"
        self.etc.mkdir(parents=True)

    def start(self) -> None:
        """Hand over the credentials and run ExecStart."""
        credentials = self._place / "credentials"
        credentials.mkdir(exist_ok=True)
        for value in self._settings["LoadCredential"]:
            name, _, source = value.partition(":")
            shutil.copy(self._below(source), credentials / name)
        (self._place / "state" / self._settings["StateDirectory"][0]).mkdir(parents=True)
        (command,) = self._settings["ExecStart"]
        with (self._place / "journal").open("a") as log:
            self._process = subprocess.Popen(
                self._words(command), env=self._env(), stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> tuple[int, int]:
        """ExecStop, then the signal; answers both exit codes. A minus before a command means that
        systemd passes over its failure."""
        (command,) = self._settings["ExecStop"]
        stopped = subprocess.run(
            self._words(command.removeprefix("-")), env=self._env(), check=False
        )
        assert self._process is not None
        self._process.terminate()
        return stopped.returncode, self._process.wait(int(self._settings["TimeoutStopSec"][0]))

    @property
    def journal(self) -> str:
        return (self._place / "journal").read_text(encoding="utf-8")

    def _words(self, command: str) -> list[str]:
        program, *rest = shlex.split(self._filled_in(command))
        assert program.endswith("/bin/partibus")
        return [*self._inside, str(self._program), *rest]

    def _env(self) -> Mapping[str, str]:
        env = {"PATH": os.defpath, "HOME": "/"}
        for value in self._settings["Environment"]:
            env |= dict(word.split("=", 1) for word in shlex.split(self._filled_in(value)))
        for source in self._settings["EnvironmentFile"]:
            lines = self._below(source).read_text(encoding="utf-8").splitlines()
            env |= dict(line.split("=", 1) for line in lines)
        return env

    def _filled_in(self, text: str) -> str:
        credentials, state = self._place / "credentials", self._place / "state"
        return text.replace("%d", str(credentials)).replace("%S", str(state))

    def _below(self, source: str) -> Path:
        return self.etc / Path(source).relative_to("/etc")
