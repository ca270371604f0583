"""`make demo` as a person runs it, with shorter phases: every promise is kept and reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.server import SOURCE

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
TOOLS = SOURCE.parent / "tools"
PAGES = ("index.html", "traffic/report.html", "dead-letters/report.html")


@pytest.mark.timeout(600)
def test_the_demo_keeps_its_promises(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{TOOLS}"}
    command = [sys.executable, "-m", "demo", "--phase", "3", "--output", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every promise was kept" in done.stdout
    assert "0 lost" in done.stdout
    said = done.stdout.splitlines()
    console = next(n for n, line in enumerate(said) if "/console/" in line)
    traffic = next(n for n, line in enumerate(said) if "A shop and its billing start" in line)
    assert console < traffic, "the console's address comes before the traffic"
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<svg class="system"' in index
    for page in PAGES:
        assert (tmp_path / page).stat().st_size > 1000
