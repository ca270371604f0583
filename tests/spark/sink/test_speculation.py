"""Two attempts at one task at once, both to their end: no row is written twice.

Spark never speculates twice on one host, so two workers stand here under two names of it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest
from pyspark.sql import SparkSession

from conformance.settlement.steps import until
from spark.bus import Bus, once_each
from spark.quick_python import PYTHON_PATH
from spark.source.test_source import captured

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
SECONDS_MAX: Final = 400
_CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"


@contextmanager
def part(place: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A process of a cluster; gives its log."""
    log = place / f"{name}.log"
    kind = "master.Master" if name == "master" else "worker.Worker"
    environment = os.environ | {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    command = [str(_CLASS), f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
    try:
        yield log
    finally:
        process.terminate()
        process.wait()


def told(log: Path, word: str) -> str:
    """The word of a log that begins so, once it stands there."""

    def look() -> str | None:
        words = log.read_text(encoding="utf-8").split()
        return next((found for found in words if found.startswith(word)), None)

    found = until(f"{log} to say {word}", look)
    assert found is not None
    return found.rstrip(".,")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A cluster of two workers with a core each."""
    with ExitStack() as stack:
        arguments = ("--host", "127.0.0.1", "--port", "0")
        url = told(stack.enter_context(part(tmp_path, "master", *arguments)), "spark://127")
        for number in (1, 2):
            name, host = f"worker-{number}", f"127.0.0.{number}"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / name))
            stack.enter_context(part(tmp_path, name, "--host", host, *size, url))
        yield url


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_speculation_gives_no_duplicates(
    spark: SparkSession, bus: Bus, master: str, tmp_path: Path
) -> None:
    arguments, sent, queues = [master], {}, {}
    for mode in ("cursor", "claim"):
        queue = queues[mode] = bus.queue()
        sent[mode] = bus.fill(queue, 200)
        (tmp_path / mode).mkdir()
        arguments += [f"{queue}:{mode}", str(tmp_path / mode)]
    environment = os.environ | {"BUS": bus.connection_string, "PYTHONPATH": PYTHON_PATH}
    program = Path(__file__).with_name("speculative.py")
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=environment,
        timeout=SECONDS_MAX,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for mode, queue in queues.items():
        assert (tmp_path / mode / "second").exists(), "nothing was speculated"
        once_each(captured(spark, tmp_path / mode), sent[mode])
        assert bus.left(queue) == ((200, 0, 0) if mode == "cursor" else (0, 0, 0))
