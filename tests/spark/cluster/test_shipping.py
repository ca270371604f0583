"""The connector on machines that have not installed it: what the guide says to ship, shipped.

The interpreter of driver and executors is one without the packages of this repository; Arrow and
PySpark it has. What the driver finds lies where executors do not look.
"""

import os
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pyarrow
import pytest
from cluster import HOST, QUICK_JVM, Cluster, spark_home

from spark.bus import Bus, once_each
from support.server import SOURCE

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
PACKAGES = ("partibus", "pyspark_servicebus")
WRAPPER = """#!/bin/sh
PYTHONPATH="$PWD/$(dirname "$0")/../lib/packages.zip:$PYTHONPATH" exec "{python}" "$@"
"""


def pack(path: Path) -> Path:
    """The packages as a zip, with nothing compiled."""
    with zipfile.ZipFile(path, "w") as archive:
        for package in PACKAGES:
            for file in (SOURCE / package).rglob("*.py"):
                archive.write(file, file.relative_to(SOURCE))
    return path


def submit(
    cluster: Cluster, bus: Bus, place: Path, environment: dict[str, str], *arguments: str
) -> None:
    """Run the job from a directory of its own, and look at what it did."""
    queue, target = bus.queue(), bus.queue()
    (place / "bus.txt").write_text(bus.connection_string)
    settings = ["spark.ui.enabled=false", "spark.executor.memory=512m"]
    settings += [f"spark.{role}.extraJavaOptions={QUICK_JVM}" for role in ("driver", "executor")]
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url, *arguments]
    command += [word for setting in settings for word in ("--conf", setting)]
    command += [str(Path(__file__).with_name("shipped.py")), str(place / "bus.txt")]
    command += [queue, target, str(place / "checkpoint")]
    kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    given = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": HOST}
    done = subprocess.run(
        command,
        cwd=place,
        env=kept | given | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert str(SOURCE) not in lines["FROM"]
    assert lines["READ"] == "40"
    once_each([str(message) for message in bus.peek(target)], map(str, range(40)))
    assert bus.left(queue) == (0, 0, 0)


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter with nothing installed."""
    venv.create(tmp_path / "bare", symlinks=True)
    return tmp_path / "bare" / "bin" / "python"


@pytest.fixture
def libraries() -> str:
    """Where Arrow and PySpark are; a path in PYTHONPATH brings no editable installs."""
    return str(Path(pyarrow.__file__).parents[1])


def test_a_zip_for_driver_and_executors(
    bus: Bus, tmp_path: Path, bare_python: Path, libraries: str
) -> None:
    (tmp_path / "client").mkdir()
    pack(tmp_path / "client" / "for-the-driver.zip")
    shipped = pack(tmp_path / "packages.zip")
    machines = {"PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": libraries}
    with Cluster(memory="1g", env=machines) as cluster:
        driver = f"client/for-the-driver.zip:{libraries}"
        arguments = ["--py-files", str(shipped)]
        arguments += ["--conf", f"spark.executorEnv.PYTHONPATH={shipped.name}"]
        submit(cluster, bus, tmp_path, machines | {"PYTHONPATH": driver}, *arguments)


def test_an_archive_with_an_interpreter(
    bus: Bus, tmp_path: Path, bare_python: Path, libraries: str
) -> None:
    place = tmp_path / "environment"
    for part in ("bin", "lib"):
        (place / part).mkdir(parents=True)
    (place / "bin" / "python").write_text(WRAPPER.format(python=bare_python))
    (place / "bin" / "python").chmod(0o755)
    pack(place / "lib" / "packages.zip")
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(place, ".")
    machines = {"PYSPARK_PYTHON": str(bare_python), "PYTHONPATH": libraries}
    with Cluster(memory="1g", env=machines) as cluster:
        driver = {"PYSPARK_PYTHON": "./environment/bin/python", "PYTHONPATH": libraries}
        arguments = ["--archives", f"{tmp_path}/environment.tar.gz#environment"]
        submit(cluster, bus, tmp_path, driver, *arguments)
