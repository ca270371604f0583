"""A compose file as containers that run without an engine.

Reads what our files and the vendor's use, and refuses a key that it does not know, so that nothing
in a file is passed over in silence. A service of another image is not started: there is no registry
to take it from.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from image.building import Image
from image.container import Container

KNOWN = {
    *("image", "build", "command", "environment", "volumes", "ports", "read_only", "tmpfs"),
    # What an engine makes of these is not the container's own affair.
    *("container_name", "depends_on", "networks", "pull_policy", "restart", "stop_grace_period"),
    # `Container` always does this.
    *("cap_drop", "security_opt"),
}
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


@dataclass
class Service:
    """One service of ours: its container, and the ports it publishes."""

    container: Container
    ports: list[int]


def service_of(file: Path, text: str, name: str, image: Image, place: Path, **env: str) -> Service:
    """The one service whose image has that name, with its volumes below `place`."""
    document = yaml.safe_load(VARIABLE.sub(lambda found: env.get(found[1], found[2] or ""), text))
    ours = [each for each in document["services"].values() if each["image"] == name]
    (service,) = ours
    assert service.keys() <= KNOWN, service.keys() - KNOWN
    container = Container(
        image=image,
        root=place / "root",
        command=service.get("command", ()),
        env={key: str(value) for key, value in service.get("environment", {}).items()},
        binds=binds(file, service, document, place),
        is_read_only=service.get("read_only", False),
    )
    ports = [tuple(map(int, port.split(":"))) for port in service["ports"]]
    # Without an engine there is no mapping.
    assert all(outside == inner for outside, inner in ports)
    return Service(container, [outside for outside, _ in ports])


def binds(
    file: Path, service: Mapping[str, Any], document: Mapping[str, Any], place: Path
) -> dict[str, Path]:
    """Files beside the compose file, and a directory for each volume, that of the image too."""
    found: dict[str, Path] = {}
    for text in service.get("volumes", []):
        source, target, *_ = text.split(":")
        if source in (document.get("volumes") or {}):
            found[target] = volume(place / source)
        else:
            found[target] = (file.parent / source).resolve()
            assert found[target].is_file(), found[target]
    found.setdefault("/var/lib/partibus", place / "anonymous")
    volume(found["/var/lib/partibus"])
    return found


def volume(directory: Path) -> Path:
    """An engine makes a volume with the owner of the place that it is mounted on."""
    directory.mkdir(exist_ok=True)
    os.chown(directory, 10001, 10001)
    return directory
