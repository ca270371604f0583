"""A pipeline as people submit it: spark-submit, a cluster, and an executor killed in a task.

Owns the process of a job, what it says, and the kill. Spark's own REST API tells who has a task;
an executor is stopped before it is asked once more, so that its task cannot end in between, and
only then killed. That a task was lost with it is read from the driver's log, never assumed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from cluster import HOST, LOGGING_FILE, QUICK_JVM, Cluster, command_of, logging_option

from adversity.waiting import looks
from spark.quick_python import PYTHON_PATH
from support.repository import ROOT

SECONDS_MAX: Final = 240
_LOOKS: Final = 3
"""Answers that take about as long as the driver needs for the end of a task that it was told."""
CONF: Final = {
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.port": "0",
    # Who has a task is told at once, not every 100 ms.
    "spark.ui.liveUpdate.period": "0",
}
_LOGGING: Final = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
_UI: Final = re.compile(r"Successfully started service 'SparkUI' on port (\d+)")
_APP: Final = re.compile(r"Connected to Spark cluster with app ID (\S+)")
_LOST_TASK: Final = re.compile(
    r"ask \S+ in stage \S+ \(TID (\d+)\) "
    r"(?:\(.*\): ExecutorLostFailure|failed because .* executor exited)"
)
"""In either way that Spark tells it, which depends on what it hears first of the end."""
_EXECUTOR_ID: Final = re.compile(r"--executor-id\0(\d+)\0")


class Submitted:
    """A job on its way."""

    def __init__(self, command: Sequence[str], cluster: Cluster, place: Path) -> None:
        self._cluster = cluster
        self._log: list[str] = []
        self._output: list[str] = []
        self._api = ""
        (place / LOGGING_FILE).write_text(_LOGGING)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=_environment(),
            cwd=place,
            start_new_session=True,
        )
        kept = {"output": self._output, "log": self._log}
        streams = zip((self.process.stdout, self.process.stderr), kept.items(), strict=True)
        self._readers = [
            threading.Thread(target=_read, args=(stream, lines, place / name), daemon=True)
            for stream, (name, lines) in streams
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for reader in self._readers:
            reader.join(SECONDS_MAX)

    # --- what it says -----------------------------------------------------------------------

    @property
    def log(self) -> str:
        """What the driver has logged."""
        return "".join(self._log)

    @property
    def output(self) -> str:
        """What the job has printed."""
        return "".join(self._output)

    def ended(self) -> str:
        """Wait for its good end; gives what it has printed."""
        code = self.process.wait(SECONDS_MAX)
        for reader in self._readers:
            reader.join(SECONDS_MAX)
        assert code == 0, self.log[-5000:]
        return self.output

    def report(self) -> dict[str, Any]:
        """The same, of a job that was told to print its report as JSON."""
        found: dict[str, Any] = json.loads(self.ended())
        return found

    def until(self, what: str, probe: Callable[[], object]) -> Any:
        """Ask again until the answer is true; the job must not end before."""
        for _ in looks(SECONDS_MAX):
            if answer := probe():
                return answer
            assert self.process.poll() is None, f"ended before {what}: {self.log[-5000:]}"
        raise AssertionError(f"waited in vain for {what}: {self.log[-5000:]}")

    def _said(self, pattern: re.Pattern[str]) -> str:
        found: re.Match[str] = self.until(pattern.pattern, lambda: pattern.search(self.log))
        return found.group(1)

    # --- what Spark tells of it --------------------------------------------------------------

    def ask(self, path: str) -> Any:
        """The driver's REST API; nothing as long as it does not answer for the application."""
        if not self._api:
            self._api = f"http://{HOST}:{self._said(_UI)}/api/v1/applications/{self._said(_APP)}"
        try:
            with urllib.request.urlopen(f"{self._api}/{path}", timeout=30) as answer:  # noqa: S310 - loopback
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
            return []  # before the application is known there is a page for people

    def stages_done(self) -> int:
        """How many stages are behind it."""
        return len(self.ask("stages?status=complete"))

    def _at_work(self) -> dict[str, int]:
        """Executors that have a task now, with their processes."""
        processes = {}
        for pid in self._cluster.executors():
            if found := _EXECUTOR_ID.search(command_of(pid)):
                processes[found.group(1)] = pid
        told = self.ask("executors")
        busy = [each["id"] for each in told if each["activeTasks"] > 0]
        return {name: processes[name] for name in busy if name in processes}

    # --- the kill ----------------------------------------------------------------------------

    def kill_an_executor_at_work(self, when: Callable[[], object], what: str = "its moment") -> str:
        """Kill one that has a task, once a moment has come; gives its id.

        A report of the end of the task may have been on its way to the driver when the executor
        was stopped. Then no task was lost with it, and the next one is looked for."""
        self.until("Spark's REST API", lambda: self.ask("executors"))  # the first answer takes time
        self.until(what, when)
        while True:
            victim: str = self.until("an executor at work", self._killed)
            self._said(re.compile(rf"(Executor lost: {victim} )"))
            if self.lost_tasks(victim):
                return victim

    def _killed(self) -> str | None:
        """The executor that was killed with a task, if one has any."""
        for name, pid in self._at_work().items():
            os.kill(pid, signal.SIGSTOP)
            if all(name in self._at_work() for _ in range(_LOOKS)):
                self._cluster.kill_executor(pid)
                return name
            os.kill(pid, signal.SIGCONT)
        return None

    def lost_tasks(self, executor: str) -> set[str]:
        """The tasks that were lost with an executor, as the driver tells it."""
        log = self.log
        started = re.findall(rf"Starting task .* \(TID (\d+)\) \(\S+,executor {executor},", log)
        return set(started) & set(_LOST_TASK.findall(log))


def submit(cluster: Cluster, place: Path, script: str, *arguments: str) -> Submitted:
    """One of the jobs in the examples, by spark-submit."""
    submitter = Path(sys.executable).with_name("spark-submit")
    command = [str(submitter), "--master", cluster.url]
    settings = CONF | {"spark.driver.extraJavaOptions": f"{QUICK_JVM} {logging_option(place)}"}
    command += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    command += [str(ROOT / "examples" / "jobs" / script), *arguments]
    return Submitted(command, cluster, place)


def _environment() -> dict[str, str]:
    return os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": PYTHON_PATH,
        "SPARK_LOCAL_IP": HOST,
    }


def _read(stream: Any, lines: list[str], file: Path) -> None:
    """Into memory for the tests, and into a file for people."""
    with stream, file.open("w", encoding="utf-8") as copy:
        for line in stream:
            lines.append(line)
            copy.write(line)
