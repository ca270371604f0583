"""The program of the guide to transactions, run as it is pasted."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from conformance.settlement.backstage import Backstage
from conformance.settlement.namespace import write_queues
from support.repository import ROOT, code_blocks
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

PROGRAM_SECONDS_MAX = 120


def test_the_program_of_the_guide(tmp_path: Path) -> None:
    (text,) = code_blocks(ROOT / "docs/guides/transactions.md", "python")
    config = write_queues(tmp_path / "namespace.toml", {"orders": {}, "orders-done": {}})
    with ServerProcess(tmp_path, config) as process, Backstage(process) as client:
        client.send("orders", "order 1")
        assert text.count("localhost:5672") == 1
        program = tmp_path / "move.py"
        port = process.ready.amqp_port
        program.write_text(text.replace("localhost:5672", f"localhost:{port}"), encoding="utf-8")
        command = [sys.executable, str(program)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX, check=False
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        client.assert_committed({"orders": [], "orders-done": ["order 1"]})
