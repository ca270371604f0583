"""`make cluster`: a Spark standalone cluster of real processes on this machine.

Owns one master and its workers, started from the installed `pyspark` on loopback with free ports,
and everything they leave: processes, executors, work directories. In the foreground it prints where
the cluster is and what to try, until Ctrl-C; tests use `Cluster` as a context manager and kill
executors by their process ids. It signals nothing but what it has started.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).resolve().parents[1]
HOST: Final = "127.0.0.1"
# Far above what a start takes, even on a machine that is busy with tests.
READY_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 20.0
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
QUICK_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives for a minute: it starts sooner, uses less memory, and has a lower top
speed."""

LOGGING_FILE: Final = "log4j2.properties"
_LOGGING: Final = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
_MASTER_URL: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_WEB_URL: Final = re.compile(r"Bound MasterWebUI .*(http://\S+)")
_REGISTERED: Final = re.compile(r"Successfully registered with master")


class ClusterError(Exception):
    """The cluster cannot be started; says why, and what to do."""


def spark_home() -> Path:
    """Where the installed pyspark keeps its jars and scripts."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterError("PySpark is not installed. Install it: pip install 'partibus[spark]'")
    return Path(found.origin).parent


def logging_option(place: Path) -> str:
    """The option with which a JVM reads the `LOGGING_FILE` in a directory.

    Not by SPARK_CONF_DIR: Java shares the classes of Spark between JVMs, where that is set up, only
    if all have the same class path, and the directory would be in it."""
    return f"-Dlog4j2.configurationFile=file:{place / LOGGING_FILE}"


def require_java() -> None:
    """Choose the Java of the cluster; report that it is missing before a script of Spark does."""
    from pyspark_servicebus.java_runtime import JavaMissing, use_java

    try:
        use_java()
    except JavaMissing as error:
        raise ClusterError(str(error)) from error


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """All processes below a process."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def command_of(pid: int) -> str:
    """The command line of a process; empty when it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""


class Daemon:
    """One JVM of the cluster: its process, its log, and what it says."""

    def __init__(self, name: str, command: list[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._log = log
        # Its own session: Ctrl-C reaches only us, and we end it in order. It dies if we are killed.
        guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        self.process = subprocess.Popen(
            [*guard, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream, self._log.open("a", encoding="utf-8") as log:
            for line in stream:
                log.write(line)
                log.flush()
                self._lines.put(line)
        self._lines.put(None)

    def says(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The next line that matches a pattern; an error if the process ends first."""
        while True:
            try:
                line = self._lines.get(timeout=READY_SECONDS_MAX)
            except queue.Empty:
                raise self._failure("says nothing") from None
            if line is None:
                raise self._failure("has ended")
            if match := pattern.search(line):
                return match

    def _failure(self, what: str) -> ClusterError:
        tail = self._log.read_text(encoding="utf-8")[-2000:] if self._log.exists() else ""
        return ClusterError(f"The {self.name} {what}; its log ends with:\n{tail}")

    def end(self) -> None:
        """Ask it to end, and kill it if it does not; then kill everything below it."""
        below = descendants(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Cluster:
    """A master and its workers; started on entering, stopped on leaving."""

    def __init__(
        self,
        *,
        workers: int = 2,
        memory: str = "2g",
        port: int = 0,
        web_port: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._count = workers
        self._memory = memory
        self._ports = (port, web_port)
        self._given = dict(env or {})
        self._daemons: list[Daemon] = []
        self._place: Path | None = None
        self.url = ""
        self.web_url = ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    @property
    def place(self) -> Path:
        """The directory of logs and work, which is removed with the cluster."""
        assert self._place is not None, "the cluster was never started"
        return self._place

    def start(self) -> None:
        """Start; returns when the master knows every worker."""
        home = spark_home()
        require_java()
        self._place = Path(tempfile.mkdtemp(prefix="partibus-cluster-"))
        (self.place / LOGGING_FILE).write_text(_LOGGING, encoding="utf-8")
        self._start_master(home)
        for number in range(self._count):
            self._start_worker(home, number)
        for daemon in self.workers:
            daemon.says(_REGISTERED)
        alive = self.state()["aliveworkers"]
        if alive != self._count:
            raise ClusterError(f"The master knows {alive} workers, not {self._count}.")

    def _start_master(self, home: Path) -> None:
        port, web_port = self._ports
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(web_port)]
        master = self._launch(home, "master", "master.Master", arguments)
        self.url = master.says(_MASTER_URL).group(1)
        self.web_url = master.says(_WEB_URL).group(1)

    def _start_worker(self, home: Path, number: int) -> None:
        work = self.place / f"worker-{number}"
        arguments = ["--cores", "1", "--memory", self._memory, "--host", HOST]
        arguments += ["--webui-port", "0", "--work-dir", str(work), self.url]
        self._launch(home, f"worker-{number}", "worker.Worker", arguments)

    def _launch(self, home: Path, name: str, kind: str, arguments: list[str]) -> Daemon:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        daemon = Daemon(name, command, self._environment(home), self.place / f"{name}.log")
        self._daemons.append(daemon)
        return daemon

    def _environment(self, home: Path) -> dict[str, str]:
        """What executors inherit: the interpreter, and the packages of this repository."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return {
            **kept,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "src"),
            **self._given,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_HOSTNAME": HOST,
            "SPARK_LOCAL_DIRS": str(self.place),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JVM} {logging_option(self.place)}",
        }

    def stop(self) -> None:
        """End every process, workers first, and remove what they have written."""
        for daemon in reversed(self._daemons):
            daemon.end()
        self._daemons.clear()
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)

    # --- what is running ------------------------------------------------------------------

    @property
    def workers(self) -> list[Daemon]:
        """The workers, without the master."""
        return self._daemons[1:]

    @property
    def worker_pids(self) -> list[int]:
        """The processes of the workers."""
        return [daemon.process.pid for daemon in self.workers]

    def state(self) -> dict[str, Any]:
        """What the master reports about itself."""
        with urllib.request.urlopen(f"{self.web_url}/json/", timeout=30) as answer:  # noqa: S310 - loopback
            reported: dict[str, Any] = json.load(answer)
        return reported

    def executors(self) -> list[int]:
        """The JVMs that run tasks, children of the workers."""
        below = [pid for worker in self.worker_pids for pid in children(worker)]
        return [pid for pid in below if EXECUTOR in command_of(pid)]

    def kill_executor(self, pid: int) -> None:
        """Kill one executor, as a power cut would."""
        if pid not in self.executors():
            raise ClusterError(f"{pid} is not an executor of this cluster.")
        os.kill(pid, signal.SIGKILL)


GUIDE: Final = """\
Spark is at  {url}   ({workers} workers, a core and {memory} each)
Its page     {web}
Try it, with a running bus (make run) and its connection string in bus.txt:

  export PYSPARK_PYTHON={python} SPARK_LOCAL_IP={host}
  {bin}/pyspark --master {url}
  >>> bus = {{"connectionStringRef": "file:" + os.path.abspath("bus.txt"), "queue": "orders"}}
  >>> spark.read.format("servicebus").options(**bus).load().show()

  {bin}/spark-submit --master {url} YOUR_JOB.py

Kill an executor in the middle: {web} shows them, `pgrep -f {executor}` their processes.
Ctrl-C ends the cluster."""


def main() -> int:
    """`make cluster`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2g", help="memory of each worker, for example 1g")
    parser.add_argument("--port", type=int, default=0, help="port of the master; 0 picks one")
    parser.add_argument("--web-port", type=int, default=0, help="port of its page; 0 picks one")
    given = parser.parse_args()
    # Also where a shell has started us in the background, which ignores Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    cluster = Cluster(
        workers=given.workers, memory=given.memory, port=given.port, web_port=given.web_port
    )
    try:
        with cluster:
            _tell(cluster, given)
            signal.pause()
    except KeyboardInterrupt:
        print("\nThe cluster has ended.")
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tell(cluster: Cluster, given: argparse.Namespace) -> None:
    text = GUIDE.format(
        url=cluster.url,
        web=cluster.web_url,
        workers=given.workers,
        memory=given.memory,
        python=sys.executable,
        bin=Path(sys.executable).parent,
        host=HOST,
        executor=EXECUTOR,
    )
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
