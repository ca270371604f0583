"""The files and functions of the guides and examples, read as they stand there."""

from pathlib import Path
from typing import Any

import pytest

from pyspark_servicebus.pipelines.declared.file import load_declared
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.transform.functions import load_function
from support.repository import ROOT, code_blocks

GUIDES = ROOT / "docs" / "guides"
BUS = BusPlace(connection_string_ref="env:BUS")


def test_the_files_of_the_guide(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    first, second = code_blocks(GUIDES / "pipelines-declared.md", "toml")
    file.write_text(first, encoding="utf-8")
    bills = load_declared(file, BUS)
    assert [step.kind for step in bills.settings.all_steps()] == ["json", "filter", "sql"]
    assert (bills.schedule.kind, bills.metrics_port) == ("every", 9464)
    file.write_text(second, encoding="utf-8")
    assert load_declared(file, BUS).kind.name == "capture"


def test_the_functions_of_the_guide() -> None:
    names: dict[str, Any] = {}
    for block in code_blocks(GUIDES / "pipelines-transform.md", "python")[:2]:
        exec(compile(block, "pipelines-transform.md", "exec"), names)  # noqa: S102 - our own text
    row = names["checked"]({"body": b'{"order": 1, "customer": "c"}'})
    assert row["partition_key"] == "c"
    with pytest.raises(ValueError, match="order 2 has no customer"):
        names["checked"]({"body": b'{"order": 2}'})
    state = {"count": 6}
    assert list(names["numbered"]("k", [{"body": b"x"}], state)) == [
        {"body": b"x", "subject": "k 7"}
    ]


def test_the_example() -> None:
    file = ROOT / "examples" / "pipelines" / "orders.toml"
    declared = load_declared(file, BUS)
    assert declared.name == "bill-orders"
    (step,) = [step for step in declared.settings.all_steps() if step.kind == "rows"]
    function = load_function("rows", step.value, file.parent)
    assert function({"body": b'{"order": 1, "customer": "c"}'})["partition_key"] == "c"
