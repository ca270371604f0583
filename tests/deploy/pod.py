"""A pod of a Kubernetes manifest, run without a cluster of Kubernetes.

Owns the meaning of what our manifests use: variables from fields and Secrets, $(NAME) in arguments,
volumes with the owner and mode that a kubelet gives them, init containers before the others, probes
over HTTP, preStop before the signal, and the grace period. What is not known is refused.
"""

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from image.building import Image
from image.container import Container

Secrets = Mapping[str, Mapping[str, bytes]]
"""By the name of the Secret, its keys."""

_REFERENCE: Final = re.compile(r"\$\((\w+)\)")
_KNOWN_CONTAINER: Final = {
    *("name", "image", "imagePullPolicy", "args", "env", "ports", "lifecycle", "startupProbe"),
    *("livenessProbe", "readinessProbe", "resources", "securityContext", "volumeMounts"),
}
PROBE_S: Final = 5


def expanded(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) for a variable that is known; anything else stays as it is written."""
    return _REFERENCE.sub(lambda found: env.get(found[1], found[0]), text)


class Pod:
    """One replica of a StatefulSet."""

    def __init__(
        self, name: str, spec: Mapping[str, Any], secrets: Secrets, image: Image, place: Path
    ) -> None:
        self.name = name
        self._spec = spec
        self._secrets = secrets
        self._image = image
        self._place = place
        self._who = spec["securityContext"]
        self._volumes = {each["name"]: self._volume(each) for each in spec["volumes"]}
        self.hosts = place.parent / "hosts"
        (container,) = spec["containers"]
        self._main = self._container(container)
        self._described = container
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """The init containers to their end, one after the other, then the container."""
        for described in self._spec["initContainers"]:
            made = self._container(described)
            made.create()
            with (self._place / f"{described['name']}.log").open("w") as log:
                code = made.start(stdout=log, stderr=subprocess.STDOUT).wait()
            assert code == 0, (self._place / f"{described['name']}.log").read_text()
        self._main.create()
        with (self._place / "main.log").open("a") as log:
            self._process = self._main.start(stdout=log, stderr=subprocess.STDOUT)

    def probe(self, kind: str, address: str) -> int:
        """What the kubelet hears; 0 when nothing answers."""
        asked = self._described[kind]["httpGet"]
        url = f"http://{address}:{self._ports()[asked['port']]}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=PROBE_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """As `kubectl exec` does it."""
        return self._main.run(*words)

    def pre_stop(self) -> "subprocess.CompletedProcess[str]":
        """The command that comes before the signal; what it says is what an event would show."""
        return self._main.run(*self._described["lifecycle"]["preStop"]["exec"]["command"])

    def stop(self) -> int:
        """The signal after preStop; killed at the end of the grace period, which is a failure."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(self._spec["terminationGracePeriodSeconds"])

    @property
    def log(self) -> str:
        return (self._place / "main.log").read_text(encoding="utf-8")

    def _ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self._described["ports"]}

    def _container(self, described: Mapping[str, Any]) -> Container:
        assert described.keys() <= _KNOWN_CONTAINER, described.keys() - _KNOWN_CONTAINER
        confined = described["securityContext"]
        assert confined["readOnlyRootFilesystem"], "only then may containers share a root"
        env = self._env(described["env"])
        mounts = {each["mountPath"]: each["name"] for each in described["volumeMounts"]}
        binds = {place: self._volumes[name] for place, name in mounts.items() if place != "/tmp"}
        return Container(
            image=self._image,
            root=self._place.parent / "root",
            command=[expanded(word, env) for word in described["args"]],
            env=env,
            binds=binds | {"/etc/hosts": self.hosts},
            user=f"{self._who['runAsUser']}:{self._who['runAsGroup']}",
            network=self.name,
        )

    def _env(self, described: list[Mapping[str, Any]]) -> dict[str, str]:
        """In order: a value may refer to those before it."""
        env: dict[str, str] = {}
        for each in described:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.name"
                env[each["name"]] = self.name
            elif "secretKeyRef" in source:
                key = source["secretKeyRef"]
                env[each["name"]] = self._secrets[key["name"]][key["key"]].decode()
            else:
                env[each["name"]] = expanded(each["value"], env)
        return env

    def _volume(self, described: Mapping[str, Any]) -> Path:
        directory = self._place / described["name"]
        directory.mkdir(parents=True)
        if "emptyDir" in described:
            directory.chmod(0o777)
            return directory
        given = described["secret"]
        keys = dict(self._secrets[given["secretName"]])
        items = given.get("items") or [{"key": key, "path": key} for key in keys]
        for item in items:
            file = directory / item["path"]
            file.write_bytes(keys[item["key"]])
            # YAML reads 0440 as octal.
            file.chmod(given["defaultMode"])
            os.chown(file, 0, self._who["fsGroup"])
        return directory
