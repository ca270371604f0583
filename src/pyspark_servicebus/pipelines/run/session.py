"""A Spark session with what the data source needs, for programs that have none yet.

Owns the settings that every pipeline needs: the workers' interpreter, Arrow, redaction of secrets,
UTC. A program under spark-submit keeps its master. Pipelines must never make a session: the command
line and the scripts do, here.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_servicebus.java_runtime import JavaMissing, use_java
from pyspark_servicebus.pipelines.run.progress import PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER: Final = "local[*,4]"
"""All cores; a failed task is retried, as on a cluster."""
BACKGROUND: Final = 19
"""How far a pipeline lowers its priority when it runs beside the bus and its clients."""
LIGHT_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that no messages pass through: it starts sooner and uses less memory, with a lower top
speed."""
REDACTION: Final = "(?i)secret|password|token|access[.]?key|connection[_]?string|sharedaccess|sas"
CONF: Final[dict[str, str]] = {
    "spark.redaction.regex": REDACTION,
    "spark.redaction.string.regex": "(?i)(SharedAccessKey|sig)=[^;&\\s]+",
    # On a busy machine a Python worker may need more than Spark's 15 s to start.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
}
LOCAL_CONF: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.log.level": "WARN",
}


def is_submitted() -> bool:
    """Whether spark-submit runs this program; it redirects a program's stderr to stdout."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def spark_session(
    app_name: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    log_file: Path | None = None,
    nice: int = 0,
    jvm_options: str = "",
) -> "SparkSession":
    """A session; without a master, that of spark-submit, or else this machine.

    Spark's own log goes to `log_file`, if there is one, instead of stderr. With `nice` this process
    and those of Spark on this machine run at a lower priority, permanently. `jvm_options` are for a
    JVM that is started here and does all of the work.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    _choose_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master is None and not is_submitted() and "SPARK_REMOTE" not in os.environ:
        master = LOCAL_MASTER
    if master is not None:
        builder = builder.master(master)
    is_local = master is not None and master.startswith("local")
    settings = {**CONF, **(LOCAL_CONF if is_local else {})}
    if is_local and jvm_options:
        settings["spark.driver.extraJavaOptions"] = jvm_options
    settings |= conf or {}
    for name, value in settings.items():
        builder = builder.config(name, value)
    _keep_py4j_quiet()
    keep_errors_quiet()
    if nice:
        os.nice(nice)
    with _stderr_to(log_file):
        return builder.getOrCreate()


def _choose_java() -> None:
    """Unless the JVM already runs, or runs elsewhere: find a Java for it, or fail in one line."""
    if is_submitted() or "SPARK_REMOTE" in os.environ:
        return
    try:
        use_java()
    except JavaMissing as error:
        raise PipelineFailed(str(error)) from error


def keep_errors_quiet() -> None:
    """PySpark logs the whole trace of an error besides raising it; the caller reports it anyway."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _keep_py4j_quiet() -> None:
    """Ctrl-C during a call to the JVM is not an error, and its stack is of no use."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    root = logging.getLogger()
    if _is_no_interruption not in root.filters:
        root.addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("KeyboardInterrupt while sending command")


@contextlib.contextmanager
def _stderr_to(file: Path | None) -> Iterator[None]:
    """Let a process that is started inside, the JVM, write its stderr to a file permanently."""
    if file is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        sys.stderr.flush()
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)
