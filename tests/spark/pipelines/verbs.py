"""The verbs of `partibus pipeline` for tests: in this process, or as a person runs them.

Owns the session that a verb must not stop, and processes of the command or of a script that are
told to end by a signal or are killed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from adversity.waiting import looks
from cli.command import Done, Partibus
from spark.quick_python import PYTHON_PATH
from support.repository import ROOT
from support.signals import mind_interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_MAX = 240


class Shared:
    """The session of the tests, which a verb must not stop."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


class PipelineVerbs:
    """`partibus pipeline`, in this process."""

    def __init__(self, connection_string: str) -> None:
        self._partibus = Partibus(connection_string)

    def __call__(self, *words: object) -> Done:
        return self._partibus.try_("pipeline", *map(str, words))


class Process:
    """A command in a process group of its own, with what it says in a file."""

    def __init__(self, words: list[str], bus: str, log: Path) -> None:
        self._log = log
        environment = os.environ | {"PYTHONPATH": PYTHON_PATH, "BUS": bus}
        # What a driver that is killed leaves behind goes with the folder of the test.
        environment["SPARK_LOCAL_DIRS"] = str(log.parent)
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                env=environment | {"PARTIBUS_CONNECTION_STRING": bus},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
                preexec_fn=mind_interrupts,  # noqa: PLW1509 - it takes no lock
            )

    @classmethod
    def verb(cls, bus: str, log: Path, *words: object) -> "Process":
        """`partibus pipeline ...`."""
        return cls(["-m", "partibus", "pipeline", *map(str, words)], bus, log)

    @classmethod
    def job(cls, bus: str, log: Path, name: str, *words: object) -> "Process":
        """A script of examples/jobs."""
        return cls([str(ROOT / "examples" / "jobs" / f"{name}.py"), *map(str, words)], bus, log)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def until(self, what: str, probe: Callable[[], object]) -> None:
        """Wait for something that happens while it runs; a JVM takes its time to start."""
        for _ in looks(SECONDS_MAX):
            if probe():
                return
            assert self.process.poll() is None, f"it ended before {what}:\n{self.said()}"
        raise AssertionError(f"waited in vain for {what}:\n{self.said()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def ended(self) -> int:
        """Wait for its end; gives the exit code."""
        return self.process.wait(SECONDS_MAX)

    def interrupt(self) -> int:
        """Ctrl-C, which a terminal gives to the whole group; gives the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.ended()

    def terminate(self) -> int:
        """SIGTERM to the driver, as a manager of processes ends it; gives the exit code."""
        self.process.terminate()
        return self.ended()

    def kill(self) -> None:
        """The power cut of the driver and of all that it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
