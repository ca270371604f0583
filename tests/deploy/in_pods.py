"""A program for a network of its own: nodes of a cluster as Kubernetes and systemd start them.

Run as `unshare --net --mount --pid ... python in_pods.py PLAN`, with PLAN as JSON: the manifest and
a place for volumes. The Secret of the authority is made by the commands that the manifest names.
Two pods are started with their init containers, probed, used by a stock SDK, and one is ended as a
kubelet does it; then a node of the systemd unit takes its place. What it saw is printed as one line
of JSON.
"""

import json
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "src")]

import yaml  # noqa: E402
from azure.servicebus import ServiceBusClient, ServiceBusMessage  # noqa: E402

from adversity.waiting import wait_until  # noqa: E402
from deploy.built import built_image  # noqa: E402
from deploy.network import Network  # noqa: E402
from deploy.pod import Pod, Secrets  # noqa: E402
from deploy.postgres_image import PostgresContainer  # noqa: E402
from deploy.unit_file import UnitProcess  # noqa: E402

DATABASES: Final = ("database-a", "database-b")
PODS: Final = ("partibus-0", "partibus-1")
MACHINE: Final = "machine"
PROGRAM: Final = ROOT / ".venv" / "bin" / "partibus"
QUEUE: Final = "orders"
WAIT_S: Final = 300
"""Against hanging; a machine with much else to do is slow."""


class Manifest:
    """The objects of a file, and what has to be there before it is applied."""

    def __init__(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        self.objects = list(yaml.safe_load_all(text))
        self._commands = [line.removeprefix("#   ") for line in text.splitlines() if "#   " in line]

    def of(self, kind: str) -> dict[str, Any]:
        (found,) = [each for each in self.objects if each["kind"] == kind]
        return found

    def secrets(self, place: Path) -> Secrets:
        """That of the file, and that which the commands at its head make."""
        own = self.of("Secret")
        init, create, _ = map(shlex.split, self._commands)
        assert init[0] == "partibus" and create[:4] == ["kubectl", "create", "secret", "generic"]
        subprocess.run([PROGRAM, *init[1:]], cwd=place, check=True, stdout=subprocess.DEVNULL)
        files = [place / word.removeprefix("--from-file=") for word in create[5:]]
        return {
            own["metadata"]["name"]: {k: v.encode() for k, v in own["stringData"].items()},
            create[4]: {file.name: file.read_bytes() for file in files},
        }

    def key(self) -> str:
        return str(self.of("Secret")["stringData"]["namespace.toml"].split('key = "')[1]).split(
            '"'
        )[0]


def start_databases(place: Path, password: str) -> list[PostgresContainer]:
    env = {"POSTGRES_USER": "partibus", "POSTGRES_DB": "partibus", "POSTGRES_PASSWORD": password}
    made = []
    for name in DATABASES:
        (place / name).mkdir()
        database = PostgresContainer(place / name, ["postgres"], env, name)
        with (place / f"{name}.log").open("w") as log:
            database.start(log)
        made.append(database)
    for database in made:
        asked = partial(database.run, "pg_isready", "--host", "127.0.0.1")
        wait_until(lambda asked=asked: asked() == 0, "the database answers", seconds=WAIT_S)  # type: ignore[misc]
    return made


def status(pod: Pod) -> dict[str, dict[str, Any]]:
    """The nodes by their names, as the cluster has them now."""
    told = pod.run("partibus", "cluster", "status", "--json")
    assert told.returncode == 0, told.stderr
    return {node["name"]: node for node in json.loads(told.stdout)["nodes"]}


def used(host: str, key: str, body: str) -> str:
    """A message through one address, sent and received."""
    string = f"Endpoint=sb://{host}:5672;SharedAccessKeyName=RootManageSharedAccessKey;"
    string += f"SharedAccessKey={key};UseDevelopmentEmulator=true;"
    with ServiceBusClient.from_connection_string(string) as client:
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage(body))
        with client.get_queue_receiver(QUEUE) as receiver:
            (message,) = receiver.receive_messages(max_wait_time=60)
            receiver.complete_message(message)
            return str(message)


def probes(pod: Pod, address: str) -> list[int]:
    return [pod.probe(f"{kind}Probe", address) for kind in ("startup", "liveness", "readiness")]


def unit(place: Path, manifest: Manifest, secrets: Secrets) -> UnitProcess:
    """The files that the guide puts below /etc, on a machine of its own."""
    inside = ["nsenter", f"--net=/run/netns/{MACHINE}"]
    file = ROOT / "deploy" / "systemd" / "partibus-node.service"
    made = UnitProcess(file, place / MACHINE, PROGRAM, inside)
    etc = made.etc / "partibus"
    etc.mkdir()
    own = manifest.of("Secret")["stringData"]
    (etc / "namespace.toml").write_text(own["namespace.toml"], encoding="utf-8")
    join = ["cluster", "join", etc / "cluster", "--authority", place / "authority"]
    subprocess.run([PROGRAM, *join, "--name", MACHINE], check=True, stdout=subprocess.DEVNULL)
    settings = {
        "PARTIBUS_CLUSTER": own["cluster"],
        "PARTIBUS_STORES": own["stores"],
        "PARTIBUS_HOST": "*",
        "PARTIBUS_PEER_HOST": MACHINE,
        "PARTIBUS_PEER_PORT": "5675",
    }
    lines = [f"{name}={value}\n" for name, value in settings.items()]
    (etc / "node.environment").write_text("".join(lines), encoding="utf-8")
    return made


def main() -> None:
    plan = json.loads(sys.argv[1])
    place = Path(plan["place"])
    manifest = Manifest(Path(plan["file"]))
    headless = manifest.of("StatefulSet")["spec"]["serviceName"]
    # A Service leads to all pods; each has its name in the headless one.
    aliases = {name: (f"{name}.{headless}", "partibus") for name in PODS}
    network = Network(place / "hosts", dict.fromkeys((*DATABASES, MACHINE), ()) | aliases)
    network.make()
    print(json.dumps(run(place, manifest, network)), flush=True)


def run(place: Path, manifest: Manifest, network: Network) -> dict[str, Any]:
    secrets = manifest.secrets(place)
    password = manifest.of("Secret")["stringData"]["cluster"].split(":")[2].split("@")[0]
    databases = start_databases(place, password)
    spec = manifest.of("StatefulSet")["spec"]["template"]["spec"]
    image = built_image()
    pods = [Pod(name, spec, secrets, image, place / name) for name in PODS]
    for pod in pods:
        pod.start()
    seen: dict[str, Any] = {}
    for pod in pods:
        asked = partial(probes, pod, network.addresses[pod.name])
        wait_until(lambda asked=asked: asked() == [200] * 3, f"{pod.name} is ready", seconds=WAIT_S)  # type: ignore[misc]
    assert pods[0].run("partibus", "cluster", "rebalance", "--wait", str(WAIT_S)).returncode == 0
    seen["lanes"] = [len(status(pods[0])[name]["lanes"]) for name in PODS]
    seen["used"] = used("partibus", manifest.key(), "one")
    gone, stays = pods
    seen["preStop"] = gone.pre_stop().returncode
    node = status(stays)[gone.name]
    seen["drained"] = [node["state"], len(node["lanes"])]
    seen["serves on"] = [
        used(gone.name, manifest.key(), "two"),
        gone.probe("livenessProbe", network.addresses[gone.name]),
    ]
    seen["ended"] = gone.stop()
    seen["authority"] = sorted(
        path.name for path in (place / gone.name / "certificates").rglob("*")
    )
    seen["unit"] = with_unit(place, manifest, secrets, stays)
    seen["stays"] = stays.stop()
    del databases
    return seen


def with_unit(place: Path, manifest: Manifest, secrets: Secrets, other: Pod) -> dict[str, Any]:
    """A node by its unit joins, serves, and is stopped while another is there to take over."""
    service = unit(place, manifest, secrets)
    service.start()
    wait_until(lambda: "PARTIBUS READY" in service.journal, "the unit is ready", seconds=WAIT_S)
    assert other.run("partibus", "cluster", "rebalance", "--wait", str(WAIT_S)).returncode == 0
    seen: dict[str, Any] = {"lanes": len(status(other)[MACHINE]["lanes"])}
    seen["used"] = used(MACHINE, manifest.key(), "three")
    seen["stopped"] = service.stop()
    seen["left"] = [len(node["lanes"]) for node in status(other).values()]
    return seen


if __name__ == "__main__":
    main()
