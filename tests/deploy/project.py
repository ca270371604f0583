"""A compose project with several services, brought up without an engine.

Owns the order of `depends_on` with its conditions, and what a service is made of: ours run from the
image, those of `postgres` by Debian's package, each with its address in the network of the project.
A key that is not known is refused, so that nothing in a file is passed over in silence.
"""

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from image.building import Image
from image.container import Container

from adversity.waiting import wait_until
from deploy.compose import KNOWN, volume
from deploy.network import Network
from deploy.postgres_image import DATA, PostgresContainer

OURS: Final = "partibus:latest"
HEALTHY: Final = "service_healthy"
COMPLETED: Final = "service_completed_successfully"
ENDED_S: Final = 300
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def read_project(text: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The document with its variables filled in."""

    def value(found: re.Match[str]) -> str:
        if found[1] in env:
            return env[found[1]]
        assert found[2] == "-", f"{found[1]} is not set: {found[3]}"
        return found[3]

    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, code))
    for name, service in document["services"].items():
        assert service.keys() <= KNOWN | {"healthcheck"}, (name, service.keys() - KNOWN)
    return document


class Project:
    """The services of a file, each with a place for its volumes and an address."""

    def __init__(self, file: Path, image: Image, place: Path, env: Mapping[str, str]) -> None:
        document = read_project(file.read_text(encoding="utf-8"), env)
        self.services: dict[str, dict[str, Any]] = document["services"]
        self._volumes: set[str] = set(document["volumes"])
        self._file = file
        self._image = image
        self._place = place
        aliases = {n: s.get("networks", {}).get("default", {}) for n, s in self.services.items()}
        self.network = Network(
            place / "hosts", {name: given.get("aliases", ()) for name, given in aliases.items()}
        )
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.starts: Counter[str] = Counter()
        self._containers: dict[str, Container | PostgresContainer] = {}

    def up(self, name: str) -> None:
        """Start a service when what it depends on is as it should be; one that runs stays."""
        for other, needed in self.services[name].get("depends_on", {}).items():
            if other not in self.running:
                self.up(other)
            self._meets(other, needed["condition"])
        if name not in self.running:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a service, without asking what it depends on."""
        log = (self._place / f"{name}.log").open("a", encoding="utf-8")
        made = self._containers.get(name) or self._container(name)
        self._containers[name] = made
        self.starts[name] += 1
        if isinstance(made, Container):
            made.create()
            self.running[name] = made.start(stdout=log, stderr=subprocess.STDOUT)
        else:
            self.running[name] = made.start(log)
        log.close()

    def stop(self, name: str) -> int:
        """Stop a service as the engine does, within its grace period; answers its exit code."""
        process = self.running.pop(name)
        is_ours = isinstance(self._containers[name], Container)
        process.send_signal(signal.SIGTERM if is_ours else PostgresContainer.stop_signal)
        grace_s = int(self.services[name]["stop_grace_period"].removesuffix("s"))
        return process.wait(grace_s)

    def run(self, name: str, *words: str) -> str:
        """Another command in a container of ours, as `docker compose exec` does."""
        made = self._containers[name]
        assert isinstance(made, Container)
        done = made.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def log(self, name: str) -> str:
        return (self._place / f"{name}.log").read_text(encoding="utf-8")

    def is_healthy(self, name: str) -> bool:
        """What the health check of the service says, or that of its image."""
        made = self._containers[name]
        if isinstance(made, Container):
            assert "healthcheck" not in self.services[name]
            return made.run().returncode == 0
        kind, *words = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return made.run(*words) == 0

    def _meets(self, name: str, condition: str) -> None:
        process = self.running[name]
        if condition == COMPLETED:
            code = process.wait(ENDED_S)
            assert code == 0, f"{name} ended with {code}: {self.log(name)}"
        else:
            assert condition == HEALTHY
            wait_until(partial(self.is_healthy, name), f"{name} is healthy", seconds=ENDED_S)
            assert process.poll() is None, f"{name} has ended"

    def _container(self, name: str) -> Container | PostgresContainer:
        service = self.services[name]
        env = {key: str(value) for key, value in service.get("environment", {}).items()}
        command = service["command"]
        if service["image"] != OURS:
            assert service["image"].startswith("postgres:"), service["image"]
            binds = self._binds(service)
            return PostgresContainer(binds[DATA], command, env, name)
        binds = self._binds(service) | {"/etc/hosts": self.network.hosts}
        assert service["read_only"], "only then may containers share a root"
        return Container(
            image=self._image,
            root=self._place / "root",
            command=command,
            env=env,
            binds=binds,
            network=name,
        )

    def _binds(self, service: Mapping[str, Any]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for text in service["volumes"]:
            source, target, *_ = text.split(":")
            if source in self._volumes:
                found[target] = self._volume(source, target)
            else:
                found[target] = (self._file.parent / source).resolve()
                assert found[target].is_file(), found[target]
        return found

    def _volume(self, source: str, target: str) -> Path:
        """The owner is that of the place in the image: who has no such place cannot write there."""
        directory = self._place / source
        if directory.exists():
            return directory
        if target in self._image.volumes:
            return volume(directory)
        assert target == DATA, f"{target} would belong to root"
        directory.mkdir()
        return directory
