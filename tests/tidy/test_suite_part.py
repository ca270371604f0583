"""A part of the test suite: what fails twice fails, what fails once is named."""

import subprocess
import sys
from pathlib import Path

from support.groups import ROOT

UNSTABLE = """
import pathlib

def test_second_time():
    marker = pathlib.Path("ran")
    ran = marker.exists()
    marker.touch()
    assert ran

def test_always():
    pass
"""
BROKEN = "def test_never():\n    assert False\n"
MANY = """
import pathlib, pytest

@pytest.mark.parametrize("number", range(6))
def test_second_time(number):
    marker = pathlib.Path(f"ran{number}")
    ran = marker.exists()
    marker.touch()
    assert ran
"""


def run(tmp_path: Path, text: str) -> tuple[int, str]:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(text)
    command = [sys.executable, str(ROOT / "tools/suite_part.py"), "-p", "no:partibus"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_part_that_passes(tmp_path: Path) -> None:
    code, out = run(tmp_path, "def test_always():\n    pass\n")
    assert code == 0 and "unstable" not in out


def test_a_test_that_passes_alone_is_named(tmp_path: Path) -> None:
    code, out = run(tmp_path, UNSTABLE)
    assert code == 0
    assert "1 failed, 1 passed" in out, "the first run's report stays"
    assert "pytest 'test_it.py::test_second_time'" in out


def test_a_test_that_fails_twice_fails_the_part(tmp_path: Path) -> None:
    code, out = run(tmp_path, UNSTABLE + BROKEN)
    assert code == 1 and "unstable" not in out


def test_many_failures_are_no_chance(tmp_path: Path) -> None:
    code, out = run(tmp_path, MANY)
    assert code == 1 and "run again" not in out


def test_a_part_without_tests_keeps_its_code(tmp_path: Path) -> None:
    assert run(tmp_path, "")[0] == 5
