"""A Java that starts Spark in half the time: every JVM of the tests here is started by it.

Owns a JAVA_HOME with nothing but a `java`, which passes its arguments on and adds the options of a
short life, and an archive of the classes that Spark loads. Without the archive a JVM reads and
verifies ten thousand of them at each start. It is made once, by java_training.py, for one Java and
one Spark; a JVM that finds that it does not fit leaves it aside by itself, and where Java cannot
make one the tests run without. `make clean` removes all of it.
"""

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from cluster import HOST, QUICK_JVM, spark_home

from support.repository import ROOT

CACHE: Final = ROOT / ".pytest_cache" / "java"
TRAINING: Final = Path(__file__).with_name("java_training.py")
TRAINING_SECONDS_MAX: Final = 600
# A JVM that has other class paths says so on standard output, where the launcher of Spark answers.
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"
_LAUNCHER: Final = """\
#!/bin/sh
case "$*" in
*org.apache.spark.launcher.Main*) exec {java} "$@";;
*org.apache.spark.deploy.*|*org.apache.spark.executor.*) exec {java} {quick} {options} "$@";;
*) exec {java} "$@";;
esac
"""


def use_quick_java() -> None:
    """For this process and those it starts; the Java is the one that is chosen now."""
    java = _chosen()
    if Path(java).is_relative_to(CACHE):
        return
    made_of = f"{java} {_version(java)} {spark_home()} {TRAINING.read_text(encoding='utf-8')}"
    home = CACHE / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the test runner may be making it
        if not (home / "bin" / "java").exists():
            _make(home, java)
    if (home / "bin" / "java").exists():
        os.environ["JAVA_HOME"] = str(home)


def _chosen() -> str:
    given = os.environ.get("JAVA_HOME")
    java = str(Path(given, "bin", "java")) if given else shutil.which("java")
    assert java is not None, "use_java() comes first"
    return java


def _version(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr


def _make(home: Path, java: str) -> None:
    """Train, then put the `java` that uses what was made; its file is the sign that all is done.

    On a machine that is too busy for it there is neither, and the next run tries again."""
    archive = home / "spark.jsa"
    archive.unlink(missing_ok=True)
    _write(home / "training", java, f"-XX:ArchiveClassesAtExit={shlex.quote(str(archive))}")
    if _train(home):
        kept = f"-XX:SharedArchiveFile={shlex.quote(str(archive))}" if archive.exists() else ""
        _write(home, java, kept)


def _write(home: Path, java: str, options: str) -> None:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    made = launcher.with_suffix(".new")
    text = _LAUNCHER.format(
        java=shlex.quote(java), quick=QUICK_JVM, options=f"{options} {_QUIET}" if options else ""
    )
    made.write_text(text, encoding="utf-8")
    made.chmod(0o755)
    made.replace(launcher)


def _train(home: Path) -> bool:
    """Run the program to its end; what it says is kept for people."""
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= {"JAVA_HOME": str(home / "training"), "SPARK_LOCAL_IP": HOST}
    with (home / "training.log").open("wb") as log:
        try:
            done = subprocess.run(
                [sys.executable, str(TRAINING)],
                env=environment,
                cwd=home,
                stdout=log,
                stderr=log,
                timeout=TRAINING_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 0
