"""Which Python `make install` takes when nobody has named one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.repository import ROOT

SCRIPT = ROOT / "tools" / "choose_python.sh"
SYSTEM = "/usr/bin/python3"
ANOTHER_PYTHON = """\
#!{python}
import sys, sysconfig
sys.base_prefix = {prefix!r}
sysconfig.get_config_var = lambda name: {options!r}
exec(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("prefix", "options", "gives_way"),
    [
        ("/elsewhere", "'--enable-shared'", True),
        ("/elsewhere", "'--enable-shared' '--enable-optimizations'", False),
        ("/usr", "'--enable-shared'", False),
    ],
)
def test_a_python_without_optimizations_gives_way(
    tmp_path: Path, prefix: str, options: str, gives_way: bool
) -> None:
    python = tmp_path / "python3"
    text = ANOTHER_PYTHON.format(python=sys.executable, prefix=prefix, options=options)
    python.write_text(text, encoding="utf-8")
    python.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    found = subprocess.check_output([str(SCRIPT)], env={"PATH": path}, text=True).strip()
    assert found == (SYSTEM if gives_way and system_can_build() else "python3")


def system_can_build() -> bool:
    """Whether there is a Python of the system with which the package can be compiled."""
    needs = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    headers = Path("/usr/include").glob("python3.*/Python.h")
    found = subprocess.run([SYSTEM, "-c", needs], stderr=subprocess.DEVNULL, check=False)
    return found.returncode == 0 and any(headers)
