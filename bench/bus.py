"""Partibus as the server under measurement: `python -m partibus serve` on free ports.

Owns its configuration and the reading of its READY line. Runs with the interpreter that
runs the benchmark, compiled or not, as it was installed.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.peers import QUEUE, Peer
from partibus.ops.compiled import is_compiled

NAMESPACE: Final = f"""
[[queue]]
name = "{QUEUE}"
max_size_in_megabytes = 5120
max_message_size_in_kilobytes = 102400
lock_duration = "PT5M"
"""
PARTITIONED: Final = NAMESPACE + "enable_partitioning = true\n"


class Bus(Peer):
    name = "partibus"
    user = "RootManageSharedAccessKey"
    settles_second = True

    def __init__(self, directory: Path, namespace: str = NAMESPACE, *flags: str) -> None:
        super().__init__(directory)
        self._flags = flags
        self.version = "compiled" if is_compiled() else "interpreted"
        self._config = directory / "namespace.toml"
        self._config.write_text(namespace, encoding="utf-8")

    def start(self) -> float:
        started = time.perf_counter()
        command = [sys.executable, "-m", "partibus", "serve", "--port", "0"]
        command += ["--tls-port", "none", "--http-port", "none"]
        command += ["--data", str(self.directory / "data"), "--config", str(self._config)]
        command += self._flags
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.startswith("PARTIBUS READY"):
            log_text = (self.directory / "log").read_text(encoding="utf-8")
            raise RuntimeError(f"partibus did not start: {line}{log_text}")
        words = dict(part.split("=", 1) for part in line.strip().split(" ") if "=" in part)
        self.port = int(words["amqp"].rpartition(":")[2])
        self.password = line.strip().partition("SharedAccessKey=")[2].partition(";")[0]
        return time.perf_counter() - started
