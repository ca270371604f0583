"""The network of a compose project: one address for each service, and names that lead to them.

Owns a bridge, a network of `ip netns` for each service, and the file of names. Runs in a network
and a mount table of its own, which end with the process, so nothing is left behind. Root alone can
do this.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

BRIDGE: Final = "project"
PREFIX: Final = "10.97.0"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Network:
    """The services of one project, by the names under which they find each other."""

    def __init__(self, hosts: Path, services: Mapping[str, Sequence[str]]) -> None:
        """`services` has the further names of each; all find them in the file `hosts`."""
        self.hosts = hosts
        self.addresses = {name: f"{PREFIX}.{n}" for n, name in enumerate(services, 2)}
        lines = ["127.0.0.1 localhost"]
        for name, aliases in services.items():
            lines += [f"{self.addresses[name]} {each}" for each in (name, *aliases)]
        hosts.write_text("\n".join(lines) + "\n", encoding="ascii")

    def make(self) -> None:
        """Have all of it, and let this process be in it too."""
        Path("/run/netns").mkdir(exist_ok=True)
        subprocess.run(["mount", "--types", "tmpfs", "none", "/run/netns"], check=True)
        subprocess.run(["mount", "--bind", str(self.hosts), "/etc/hosts"], check=True)
        ip("link", "set", "lo", "up")
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("address", "add", f"{PREFIX}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, (name, address) in enumerate(self.addresses.items()):
            self._connect(name, address, f"port{number}")

    def _connect(self, name: str, address: str, port: str) -> None:
        ip("netns", "add", name)
        ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", port, "master", BRIDGE, "up")
        ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "link", "set", "eth0", "up")
