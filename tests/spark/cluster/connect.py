"""A Spark Connect server as a process, and sessions of its clients.

Owns the server's start, on any master, and its end. The data source runs where the server and its
executors are; a client has nothing of it, as when it sits on another machine.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster import HOST, LOGGING_FILE, QUICK_JVM, Daemon, logging_option, spark_home
from pyspark.sql.connect.session import SparkSession

from spark.quick_python import PYTHON_PATH

SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED: Final = re.compile(r"Spark Connect server started at: \S+:(\d+)")
_LOGGING: Final = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.connect.name = org.apache.spark.sql.connect.service
logger.connect.level = info
"""


@contextmanager
def connect_server(master: str, place: Path) -> Iterator[str]:
    """Run a server; gives its address."""
    home = spark_home()
    (place / LOGGING_FILE).write_text(_LOGGING)
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": f"{QUICK_JVM} {logging_option(place)}",
        "spark.executor.extraJavaOptions": QUICK_JVM,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(home / "bin" / "spark-submit"), "--master", master, "--class", SERVER]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": PYTHON_PATH,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
    }
    daemon = Daemon("Connect server", command, environment, place / "connect.log")
    try:
        yield f"sc://{HOST}:{daemon.says(_STARTED).group(1)}"
    finally:
        daemon.end()


@contextmanager
def connected(address: str) -> Iterator[SparkSession]:
    """A client's session; beside the classic session of other tests, so not through its builder."""
    session = SparkSession.builder.remote(address).create()
    try:
        yield session
    finally:
        session.stop()
