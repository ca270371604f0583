"""The example for Spark Declarative Pipelines, run by Spark's own command over Spark Connect."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark.bus import Bus
from spark.pipelines.arrivals import arrived
from support.repository import ROOT
from support.server import SOURCE, ServerProcess

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
for needed in ("yaml", "grpc", "grpc_status", "zstandard"):
    pytest.importorskip(needed, reason="pip install 'pyspark[pipelines]'")

CATALOGUE = ("--conf", "spark.sql.catalogImplementation=hive")
EXAMPLE = ROOT / "examples" / "declarative"
QUEUES = "".join(f'[[queue]]\nname = "{name}"\n' for name in ("orders", "bills"))


def spark_pipelines(verb: str, place: Path, bus: Bus) -> str:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "BUS": bus.connection_string,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "SPARK_HOME": str(home),
        "SPARK_TESTING": "1",  # any free port for Spark Connect, and not always the same
    }
    done = subprocess.run(
        [str(home / "bin" / "spark-pipelines"), *CATALOGUE, verb],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def send(bus: Bus, first: int, count: int) -> None:
    from azure.servicebus import ServiceBusMessage

    numbers = range(first, first + count)
    bus.send(
        "orders", *(ServiceBusMessage(f'{{"order": {n}, "amount": {n % 4}}}') for n in numbers)
    )


def test_the_example(tmp_path: Path) -> None:
    place = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, place)
    spec = place / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8").replace("/tmp/partibus-declarative", str(tmp_path))
    spec.write_text(text, encoding="utf-8")
    config = tmp_path / "bus.toml"
    config.write_text(QUEUES, encoding="utf-8")
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        send(bus, 0, 20)
        spark_pipelines("dry-run", place, bus)
        assert bus.left("orders") == (20, 0, 0)
        assert "Run is COMPLETED" in spark_pipelines("run", place, bus)
        arrived(bus, "bills", 15)
        send(bus, 20, 8)
        spark_pipelines("run", place, bus)
        bills = arrived(bus, "bills", 21)
        assert len({str(bill) for bill in bills}) == 21
        assert bus.left("orders")[0] == 28
