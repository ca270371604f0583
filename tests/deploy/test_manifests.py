"""The files of deploy/ agree with the image, with the server and with each other."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from image.building import Image, configure
from image.dockerfile import read

from deploy.unit_file import settings_of
from partibus.control.declared.definitions import parse_toml
from support.repository import ROOT

DEPLOY = ROOT / "deploy"
HEALTH = (ROOT / "src" / "partibus" / "ops" / "health.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def image() -> Image:
    made = Image(Path())
    for step in read(DEPLOY / "Dockerfile")[-1].steps:
        configure(made, step, {})
    return made


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes" / "partibus.yaml").read_text(encoding="utf-8")
    found = {each["kind"]: each for each in yaml.safe_load_all(text)}
    assert found.keys() == {"Secret", "Service", "StatefulSet"}
    return found


def test_the_image_and_the_manifest_agree(image: Image, objects: dict[str, Any]) -> None:
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert [port["containerPort"] for port in container["ports"]] == image.ports
    who = pod["securityContext"]
    assert f"{who['runAsUser']}:{who['runAsGroup']}" == image.user
    assert who["fsGroup"] == who["runAsGroup"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["data"] == image.volumes[0]
    volumes = {volume["name"] for volume in pod["volumes"]}
    claims = {c["metadata"]["name"] for c in objects["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    assert mounts.keys() == volumes | claims


def test_the_probes_ask_for_paths_that_the_server_has(objects: dict[str, Any]) -> None:
    (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert f'Route("{asked["path"]}"' in HEALTH
        assert asked["port"] in names
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_pod_may_do_nothing_that_it_need_not(objects: dict[str, Any]) -> None:
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_names_lead_to_each_other(objects: dict[str, Any]) -> None:
    stateful = objects["StatefulSet"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert objects["Service"]["spec"]["selector"] == labels == stateful["selector"]["matchLabels"]
    assert stateful["serviceName"] == objects["Service"]["metadata"]["name"]
    assert stateful["replicas"] == 1
    names = {port["name"] for port in stateful["template"]["spec"]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} == names
    secrets = [
        v["secret"]["secretName"] for v in stateful["template"]["spec"]["volumes"] if "secret" in v
    ]
    assert secrets == [objects["Secret"]["metadata"]["name"]]


def test_the_namespace_of_the_secret_can_be_served(objects: dict[str, Any]) -> None:
    (name,) = objects["Secret"]["stringData"]
    (container,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1].endswith(f"/{name}")
    made = parse_toml(Path(name), objects["Secret"]["stringData"][name])
    assert [policy.name for policy in made.policies] == ["RootManageSharedAccessKey"]


@pytest.mark.parametrize("file", ["compose.yaml", "compose.emulator.yaml"])
def test_compose_files_agree_with_the_image(image: Image, file: str) -> None:
    document = yaml.safe_load((DEPLOY / file).read_text(encoding="utf-8"))
    (service,) = document["services"].values()
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    assert f"data:{image.volumes[0]}" in service["volumes"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]


def test_the_compose_file_of_a_cluster_agrees_with_the_image(image: Image) -> None:
    text = (DEPLOY / "compose.cluster.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    ours = {n: s for n, s in document["services"].items() if s["image"] == "partibus:latest"}
    for service in ours.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    nodes = {name: each for name, each in ours.items() if each["command"][0] == "serve"}
    assert len(nodes) == 3
    published = [port.split(":") for each in nodes.values() for port in each["ports"]]
    assert {int(inner) for _, inner in published} == set(image.ports)
    assert len({outer for outer, _ in published}) == len(published), "no port is taken twice"
    for name, node in nodes.items():
        env = node["environment"]
        assert env["PARTIBUS_PEER_HOST"] == name
        # One database of messages is the cluster's own, and each node is given both.
        assert env["PARTIBUS_STORES"].split(",")[0] == env["PARTIBUS_CLUSTER"]
        assert not any(volume.startswith("authority:") for volume in node["volumes"])


UNITS = ["partibus.service", "partibus-node.service"]


@pytest.mark.parametrize("name", UNITS)
def test_the_unit_is_confined(name: str) -> None:
    settings = settings_of(DEPLOY / "systemd" / name)
    assert settings["DynamicUser"] == ["yes"]
    assert settings["CapabilityBoundingSet"] == [""]
    assert settings["ProtectSystem"] == ["strict"]
    # The server raises its own limit of open files, which @resources would forbid.
    assert "@resources" not in " ".join(settings["SystemCallFilter"])


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        # Nothing to ask on this machine; what is written above still holds.
        return
    unit = DEPLOY / "systemd" / name
    program = settings_of(unit)["ExecStart"][0].split()[0]
    file = tmp_path / name
    file.write_text(unit.read_text(encoding="utf-8").replace(program, "/bin/true"), "utf-8")
    asked = subprocess.run([analyze, "verify", file], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stderr) == (0, "")


def cluster_objects() -> list[dict[str, Any]]:
    file = DEPLOY / "kubernetes" / "cluster" / "partibus-cluster.yaml"
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def test_names_of_the_cluster_lead_to_each_other() -> None:
    objects = cluster_objects()
    (stateful,) = [each["spec"] for each in objects if each["kind"] == "StatefulSet"]
    services = {e["metadata"]["name"]: e["spec"] for e in objects if e["kind"] == "Service"}
    (budget,) = [each["spec"] for each in objects if each["kind"] == "PodDisruptionBudget"]
    labels = stateful["template"]["metadata"]["labels"]
    pod = stateful["template"]["spec"]
    assert budget["selector"]["matchLabels"] == labels == stateful["selector"]["matchLabels"]
    assert budget["maxUnavailable"] < stateful["replicas"]
    for spread in pod["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"] == labels
    (container,) = pod["containers"]
    names = {port["name"] for port in container["ports"]}
    for service in services.values():
        assert service["selector"] == labels
        assert {port["targetPort"] for port in service["ports"]} <= names
    headless = services[stateful["serviceName"]]
    # A node waits for the others before it is ready, so they must find each other before.
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["PARTIBUS_PEER_HOST"] == f"$(POD_NAME).{stateful['serviceName']}"


def test_the_node_never_sees_the_key_of_the_authority_in_a_pod() -> None:
    (stateful,) = [each["spec"] for each in cluster_objects() if each["kind"] == "StatefulSet"]
    (container,) = stateful["template"]["spec"]["containers"]
    assert "authority" not in {mount["name"] for mount in container["volumeMounts"]}


def test_the_grace_period_is_longer_than_pre_stop_may_take() -> None:
    (stateful,) = [each["spec"] for each in cluster_objects() if each["kind"] == "StatefulSet"]
    pod = stateful["template"]["spec"]
    command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    wait_s = int(command[command.index("--wait") + 1])
    assert pod["terminationGracePeriodSeconds"] >= wait_s + 60


def workflow(name: str) -> dict[str, Any]:
    file = ROOT / ".github" / "workflows" / f"{name}.yml"
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def test_hosted_ci_runs_what_anybody_runs() -> None:
    runs = [step.get("run") for step in workflow("ci")["jobs"]["test"]["steps"]]
    assert ".ci/run" in runs


def test_hosted_ci_tries_every_python_and_both_architectures() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pythons = workflow("ci")["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    built = project["tool"]["cibuildwheel"]["build"].split()
    assert [f"cp{python.replace('.', '')}-*" for python in pythons] == built
    runners = workflow("wheels")["jobs"]["wheels"]["strategy"]["matrix"]["runner"]
    assert [runner.endswith("-arm") for runner in runners] == [False, True]


@pytest.mark.parametrize("name", ["ci", "wheels"])
def test_hosted_ci_may_only_read(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job in workflow(name)["jobs"].values():
        assert "permissions" not in job
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
