"""A bus that may be broken, one Spark session for all tests, and queues nobody else uses.

The session starts with the first test that asks for it, in local[2,4]: two cores, and a task that
fails is tried again as on a cluster. All tests here run in one process of the test runner, so that
there is one session and no more.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.collected import tests_below
from support.garbage import collect_garbage
from support.groups import absent_groups
from support.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.bus import Bus

HERE = Path(__file__).parent
collect_ignore_glob = ["test_*.py", "*/test_*.py"] if "spark" in absent_groups() else []


def pytest_collection_finish(session: pytest.Session) -> None:
    """The first time Java is made quick takes half a minute, which is not the time of a test."""
    if tests_below(HERE, session.items) and not session.config.option.collectonly:
        choose_java()


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """The Java of every Spark that is started here, and by the programs that tests start."""
    choose_java()


@cache
def choose_java() -> None:
    """Once in a process. To make Java quick for the few tests of another Spark takes longer than
    it saves."""
    from pyspark_servicebus.java_runtime import use_java
    from spark.quick_java import use_quick_java

    use_java()
    if not os.environ.get("PARTIBUS_SPARK"):
        use_quick_java()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    from spark.bus import STORES, write_namespace

    directory = tmp_path_factory.mktemp("spark-bus")
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, "--faults", "--stores", str(STORES)) as process:
        yield process


@pytest.fixture(scope="session")
def whole_bus(server: ServerProcess) -> Iterator["Bus"]:
    from spark.bus import Bus

    with Bus(server) as bus:
        yield bus


@pytest.fixture
def bus(whole_bus: "Bus") -> Iterator["Bus"]:
    """The bus; whatever a test broke is whole again when it ends."""
    yield whole_bus
    whole_bus.operator.mend_all()


LOGGING = """
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes its log, with everything from INFO on."""
    return tmp_path_factory.mktemp("spark-log") / "spark.log"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_log: Path) -> Iterator["SparkSession"]:
    from cluster import QUICK_JVM
    from pyspark.sql import SparkSession

    from spark.quick_python import PYTHON_PATH

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = PYTHON_PATH
    place = tmp_path_factory.mktemp("spark")
    settings = place / "log4j2.properties"
    settings.write_text(LOGGING.format(path=spark_log), encoding="utf-8")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("partibus tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.local.dir", str(place))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dlog4j2.configurationFile=file:{settings} {QUICK_JVM}",
        )
        .getOrCreate()
    )
    # Which Spark is meant, where there is more than one.
    assert session.version.startswith(os.environ.get("PARTIBUS_SPARK", ""))
    yield session
    session.stop()


LONGEST_FILES = (
    "test_pipelines.py",
    "test_transform.py",
    "test_pages.py",
    "test_pipelines_moving.py",
    "test_declared.py",
    "test_transports.py",
    "test_transform_kill.py",
    "test_deferclaim.py",
    "test_analytics_signals.py",
    "test_streams.py",
    "test_replay.py",
    "test_kills.py",
    "test_demo.py",
)
"""What takes longest begins first, so that no process of the test runner is left with it alone."""


def _turn(item: pytest.Item) -> int:
    name = item.path.name
    return LONGEST_FILES.index(name) if name in LONGEST_FILES else len(LONGEST_FILES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = tests_below(HERE, items)
    if len(ours) == len(items):
        items.sort(key=_turn)
    for item in ours:
        # PySpark leaves the sockets to its workers open, and imports what pandas has moved.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
        item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
        item.add_marker(
            pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
        )


@pytest.fixture(autouse=True)
def _abandoned_sockets() -> Iterator[None]:
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        collect_garbage()
