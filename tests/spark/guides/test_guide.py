"""The notebook of the Spark guide, cell by cell, as it stands there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.bus import Bus
from support.repository import ROOT, code_blocks
from support.server import ServerProcess

GUIDE = ROOT / "docs" / "guides" / "spark.md"
pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


@pytest.fixture
def sample_bus(tmp_path: Path) -> Iterator[Bus]:
    """What the guide serves, on a free port."""
    (text,) = code_blocks(GUIDE, "toml")
    config = tmp_path / "spark.toml"
    config.write_text(text, encoding="utf-8")
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        yield bus


def test_the_notebook(
    spark: SparkSession, sample_bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = sample_bus.server.ready.amqp_port
    cells = code_blocks(GUIDE, "python")
    assert len(cells) == 12
    names: dict[str, Any] = {}
    for cell in cells:
        local = cell.replace("sb://localhost:5672;", f"sb://localhost:{port};")
        exec(compile(local, "spark.md", "exec"), names)  # noqa: S102 - our own text
    assert sample_bus.totals("purchases")["retained"] == 0
    assert sample_bus.totals("replayed")["duplicates_dropped"] == 1000
    sample_bus.await_left("loud", 1000, 0, 0)
    shown = sample_bus.peek("loud")
    assert {message.subject for message in shown} == {"ORDER"}
