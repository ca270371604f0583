"""Spark's classes in an archive that JVMs map into memory: they start in half the CPU time.

Owns the archive: one file for each pair of Spark and Java, below `build/`, made by a short run of
Spark that loads what most runs load. Where it cannot be made, JVMs start without it. For tests and
demonstrations, which start dozens of JVMs; called through `quick_jvm`.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

ROOT: Final = Path(__file__).resolve().parents[1]
QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives for a minute: it starts sooner, takes less, and has a lower top speed."""
MAKING_SECONDS_MAX: Final = 150
# The archive must have been made with the same garbage collector. Programs read what a job prints,
# so that nothing is said about classes that changed since.
_USED: Final = "-XX:SharedArchiveFile={} -Xlog:disable -Xlog:all=error:stderr"
_MAKE: Final = """
import sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", sys.argv[1])
    .getOrCreate()
)
frame = spark.range(10).selectExpr("id % 3 as key", "cast(id as string) as text")
frame.groupBy("key").count().write.mode("overwrite").parquet(sys.argv[2])
spark.read.parquet(sys.argv[2]).collect()
stream = spark.readStream.format("rate").load().writeStream.format("noop")
stream.trigger(availableNow=True).start().awaitTermination()
spark.stop()
gateway = spark.sparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def quick_jvm() -> str:
    """The options of a JVM that lives for a minute."""
    archive = class_archive()
    return QUICK if archive is None else f"{QUICK} {_USED.format(archive)}"


def class_archive() -> Path | None:
    """The archive, made now if it is not there; None where that does not work."""
    place = ROOT / "build" / "jvm"
    place.mkdir(parents=True, exist_ok=True)
    name = f"{pyspark.__version__} {pyspark.__file__} {_java()}"
    archive = place / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.jsa"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    return archive if archive.stat().st_size else None


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    with contextlib.suppress(OSError):
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
        return f"{command} {told.stderr}"
    return command


def _make(archive: Path) -> None:
    """Make it; an empty file says that this has failed and need not be tried again."""
    new = archive.with_suffix(".new")
    new.unlink(missing_ok=True)
    options = f"{QUICK} -XX:ArchiveClassesAtExit={new} -Xlog:disable"
    command = [sys.executable, "-c", _MAKE, options, str(archive.with_suffix(".rows"))]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, check=False, timeout=MAKING_SECONDS_MAX)
    if new.exists():
        new.replace(archive)
    else:
        archive.touch()
