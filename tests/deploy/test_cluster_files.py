"""The files that deploy a cluster: what they start is started, used, restarted and drained."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.built import built_image
from partibus.server.nodes.capacity import PER_LANE, PER_NODE, SHARED
from support.repository import ROOT

pytestmark = [
    pytest.mark.group("image"),
    pytest.mark.group("postgres"),
    pytest.mark.timeout(900),
]

HERE = Path(__file__).parent
DEPLOY = ROOT / "deploy"
NAMESPACE = """
[[queue]]
name = "parts"
enable_partitioning = true
max_delivery_count = 100
"""
ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture
def place() -> Iterator[Path]:
    """Where PostgreSQL, which is not root, may go; a temporary directory of pytest's is closed."""
    with tempfile.TemporaryDirectory(prefix="partibus-project-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def run(program: str, file: Path, place: Path, **variables: str) -> dict[str, Any]:
    built_image()  # here, because the network of the program leads nowhere
    plan = {"file": str(file), "place": str(place), "variables": variables}
    words = [*ALONE, sys.executable, str(HERE / program), json.dumps(plan)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    logs = [f"--- {log}\n{log.read_text()[-3000:]}" for log in place.rglob("*.log")]
    assert ran.returncode == 0, "\n".join([ran.stderr, *logs])
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


def test_three_nodes_over_two_databases_are_restarted_in_turn(place: Path) -> None:
    namespace = place / "namespace.toml"
    namespace.write_text(NAMESPACE, encoding="utf-8")
    given = {"POSTGRES_PASSWORD": "secret1", "PARTIBUS_NAMESPACE": str(namespace)}
    seen = run("in_cluster.py", DEPLOY / "compose.cluster.yaml", place, **given)
    assert seen["lanes"] == seen["lanes afterwards"] == [10, 11, 11]
    assert seen["failed sends"] == []
    assert seen["stopped"] == [0, 0, 0]
    assert set(seen["ends"].values()) == {0}
    assert seen["sent"] > 0
    lanes, nodes = 16 * PER_LANE + 3 * SHARED, 3 * PER_NODE
    assert seen["connections"][0] <= lanes + nodes and seen["connections"][1] <= lanes
    assert seen["authority"] is False, "no node has the key of the authority"


def test_pods_and_a_unit_join_are_probed_and_hand_their_lanes_over(place: Path) -> None:
    seen = run("in_pods.py", DEPLOY / "kubernetes" / "cluster" / "partibus-cluster.yaml", place)
    assert seen["lanes"] == [16, 16]
    assert seen["used"] == "one"
    assert seen["preStop"] == 0
    assert seen["drained"] == ["draining", 0]
    assert seen["serves on"] == ["two", 200], "a drained node still serves clients"
    assert seen["ended"] == 0
    assert seen["authority"] == ["ca.pem", "node", "node-key.pem", "node.pem"]
    machine = seen["unit"]
    assert machine["lanes"] == 16
    assert machine["used"] == "three"
    assert machine["stopped"] == [0, 0]
    assert machine["left"] == [32]
    assert seen["stays"] == 0
