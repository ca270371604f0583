"""The notebook of the guide for Azure Service Bus, cell by cell, over AMQP to our own bus."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.amqp_only import AmqpOnly
from spark.bus import Bus
from support.repository import ROOT, code_blocks
from support.server import ServerProcess

GUIDE = ROOT / "docs" / "guides" / "spark-azure.md"
pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


@pytest.fixture
def sample_bus(tmp_path: Path) -> Iterator[Bus]:
    """What the guide serves, on a free port."""
    (text,) = code_blocks(GUIDE, "toml")
    config = tmp_path / "azure.toml"
    config.write_text(text, encoding="utf-8")
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        yield bus


def test_the_notebook(
    spark: SparkSession, sample_bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = code_blocks(GUIDE, "python")
    assert len(cells) == 6
    names: dict[str, Any] = {}
    with AmqpOnly(sample_bus.server.ready.amqp_port) as way:
        for cell in cells:
            local = cell.replace("sb://localhost:5672;", f"sb://localhost:{way.port};")
            exec(compile(local, "spark-azure.md", "exec"), names)  # noqa: S102 - our own text
        assert (way.passed > 0, way.refused) == (True, [])
    assert sample_bus.totals("reminders")["locked"] == 0
    totals = sample_bus.totals("invoices")
    assert (totals["active"], totals["deferred"], totals["locked"]) == (0, 0, 0)
