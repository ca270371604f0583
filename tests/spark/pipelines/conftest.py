"""Pipelines run in the shared session, against the shared bus, into folders of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.groups import absent_groups

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.command import Done
    from spark.bus import Bus
    from spark.pipelines.declared.declared_files import Files

collect_ignore_glob = ["test_*.py", "*/test_*.py"] if "spark" in absent_groups() else []


@pytest.fixture
def partibus(
    spark: "SparkSession", bus: "Bus", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "Callable[..., Done]":
    """`partibus pipeline ...` in this process and in the session of the tests."""
    from pyspark_servicebus.pipelines.run import session
    from spark.pipelines.verbs import PipelineVerbs, Shared

    monkeypatch.setattr(session, "spark_session", lambda *given, **named: Shared(spark))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return PipelineVerbs(bus.connection_string)


@pytest.fixture
def files(spark: "SparkSession", bus: "Bus", tmp_path: Path) -> "Files":
    """Declared pipelines in a folder of this test."""
    from spark.pipelines.declared.declared_files import Files

    return Files(spark, bus, tmp_path)
