"""Declared pipelines against a real bus: files, tables and entities, restarts and kills."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pyspark_servicebus.pipelines.declared.file import FileError, load_declared
from pyspark_servicebus.pipelines.declared.running import DeclaredRun, PrintedRuns
from pyspark_servicebus.pipelines.declared.schedule import Schedule
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.state import load_state
from spark.bus import Bus, once_each
from spark.pipelines.arrivals import arrived, bodies_arrive
from spark.pipelines.declared.declared_files import Files
from spark.pipelines.verbs import Process
from spark.pipelines.watchers import After
from support.repository import ROOT
from support.server import ServerProcess

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]


def test_from_entity_to_entity(files: Files, bus: Bus, tmp_path: Path) -> None:
    source, target, failures = bus.queue(), bus.queue(), bus.queue("plain")
    sent = bus.fill(source, 30)
    text = f"""
        name = "numbers"
        [source]
        queue = "{source}"
        [[step]]
        set = {{ number = "cast(cast(body as string) as int)" }}
        [[step]]
        rows = "work.py:odd_fail"
        [[step]]
        filter = "number >= 0"
        [[step]]
        drop = ["number"]
        [[step]]
        set = {{ subject = "concat('n', get_json_object(cast(body as string), '$.number'))" }}
        [sink]
        queue = "{target}"
        failure_queue = "{failures}"
    """
    report = files.run(text)
    assert (report.name, report.read, report.written, report.failed) == ("numbers", 30, 12, 15)
    subjects = (message.subject for message in arrived(bus, target, 12))
    once_each(subjects, [f"n{n}" for n in range(0, 30, 2) if n % 10])
    bodies_arrive(bus, failures, [body for body in sent if int(body) % 2])
    assert bus.left(source) == (0, 0, 0)
    state = load_state(tmp_path / "state" / "numbers.json")
    assert state is not None
    assert (state.status, state.kind, state.rows, state.lag) == ("finished", "transform", 30, 0)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_files_and_tables(
    files: Files, bus: Bus, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    source = bus.queue()
    text = f"""
        [source]
        queue = "{source}"
        max_messages = 15
        [[step]]
        select = ["cast(body as string) as number", "enqueued_time", "fragment"]
        [sink]
        {form} = "lake"
    """
    sent = bus.fill(source, 30)
    assert files.run(text).written == 30
    sent += bus.fill(source, 5, first=30)
    report = files.run(text)
    assert (report.read, report.written) == (5, 5)
    lake = tmp_path / "lake"
    if form == "delta":
        table = DeltaTable(lake)
        found = table.to_pyarrow_table()["number"].to_pylist()
        assert table.version() >= 3
    else:
        found = [row.number for row in spark.read.parquet(str(lake)).collect()]
    once_each(found, sent)
    assert bus.left(source) == (0, 0, 0)


def test_the_console(files: Files, bus: Bus, capsys: pytest.CaptureFixture[str]) -> None:
    source = bus.queue("plain")
    bus.fill(source, 4)
    text = f"""
        [source]
        queue = "{source}"
        mode = "cursor"
        [[step]]
        select = ["body", "fragment"]
        [sink]
        console = 3
    """
    files.run(text)
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0]) == {"body": "000000", "fragment": 0}
    assert lines[3:] == ["... batch 0 has more than 3 rows"]


def test_a_ready_made_pipeline(files: Files, bus: Bus, tmp_path: Path) -> None:
    source = bus.queue("plain")
    bus.fill(source, 6)
    text = f"""
        kind = "capture"
        [capture]
        entity = "{source}"
        target = "{tmp_path}/captured"
    """
    assert files.run(text).rows == 6
    assert bus.left(source)[0] == 6


def test_check_touches_no_message(files: Files, bus: Bus) -> None:
    source, target = bus.queue("plain"), bus.queue("plain")
    bus.fill(source, 3)
    text = f"""
        [source]
        queue = "{source}"
        [[step]]
        json = "id bigint"
        [[step]]
        filter = "id > 0"
        [[step]]
        drop = ["id"]
        [sink]
        queue = "{target}"
    """
    report = files.check(text)
    assert report.columns["body"] == "binary"
    assert "it would work (transform, once)" in report.as_text()
    wrong = [
        (("id > 0", "idd > 0"), r"p.toml:7: step 2 \(filter\): .*`idd` cannot be resolved.*`id`"),
        (('["id"]', '["idd"]'), r"p.toml:9: step 3 \(drop\): there is no column 'idd'"),
        (('"id bigint"', '"id bigit"'), r"p.toml:5: step 1 \(json\): "),
        ((target, "plain"), r"p.toml:11: target: there is no entity 'plain'; did you mean 'plain-"),
        ((source, "nowhere"), r"p.toml:3: source: there is no entity 'nowhere'"),
    ]
    for (old, new), words in wrong:
        with pytest.raises(FileError, match=words):
            files.check(text.replace(old, new))
    assert bus.left(source) == (3, 0, 0)


# --- what breaks meanwhile ------------------------------------------------------------------

NAMES = ("source", "target")


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus that may be restarted."""
    config = tmp_path / "bus.toml"
    tables = [f'[[queue]]\nname = "{name}"\nenable_partitioning = true\n' for name in NAMES]
    config.write_text("".join(tables), encoding="utf-8")
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        yield bus


SMALL_BATCHES = """
name = "interrupted"
[source]
queue = "source"
max_messages = 50
claim_duration = "30s"
[[step]]
set = { subject = "concat('s', cast(body as string))" }
[sink]
queue = "target"
"""


def test_the_bus_restarts_in_the_middle(spark: SparkSession, own_bus: Bus, tmp_path: Path) -> None:
    sent = own_bus.fill("source", 250)
    files = Files(spark, own_bus, tmp_path)
    report = files.run(SMALL_BATCHES, After(own_bus.server.restart))
    assert (report.read, report.written) == (250, 250)
    bodies_arrive(own_bus, "target", sent)
    assert own_bus.left("source") == (0, 0, 0)


def command(own_bus: Bus, place: Path) -> Process:
    file = place / "killed.toml"
    file.write_text(SMALL_BATCHES, encoding="utf-8")
    words = ["run", file, "--state-dir", place / "state"]
    words += ["--master", "local[2,4]", "--metrics-file", place / "metrics.prom"]
    return Process.verb(own_bus.connection_string, place / "said.txt", *words)


def test_the_driver_is_killed_and_goes_on(own_bus: Bus, tmp_path: Path) -> None:
    """The whole way of a person: the verb, killed in the middle, and the same verb again."""
    sent = own_bus.fill("source", 400)
    process = command(own_bus, tmp_path)
    process.until("the first batch", lambda: own_bus.totals("target")["active"] > 0)
    process.kill()
    state = load_state(tmp_path / "state" / "interrupted.json")
    assert state is not None
    assert state.status == "running"
    again = command(own_bus, tmp_path)
    assert again.ended() == 0, again.said()
    assert "messages of source read" in again.said()
    bodies_arrive(own_bus, "target", sent)
    assert own_bus.left("source") == (0, 0, 0)
    metrics = (tmp_path / "metrics.prom").read_text(encoding="utf-8")
    assert 'partibus_pipeline_failed{name="interrupted",kind="transform"} 0' in metrics


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    config = tmp_path / "bus.toml"
    names = ("orders", "bills", "large-bills", "failed-orders")
    config.write_text("".join(f'[[queue]]\nname = "{name}"\n' for name in names))
    file = ROOT / "examples" / "pipelines" / "orders.toml"
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        for order in (
            '{"order": 1, "customer": "c", "amount": 5}',
            '{"order": 2, "customer": "c", "amount": 1500.5}',
            '{"order": 3, "customer": "c", "amount": 0}',
            '{"order": 4, "amount": 7}',
            "no order at all",
        ):
            bus.send("orders", ServiceBusMessage(order))
        place = BusPlace(connection_string=bus.connection_string)
        declared = load_declared(file, place, tmp_path / "state")
        once = dataclasses.replace(declared, schedule=Schedule(), metrics_port=0)
        DeclaredRun(once, lambda: spark, PrintedRuns(), tmp_path / "state").go()
        bodies_arrive(bus, "bills", ['{"order":1,"amount":5.00}'])
        bodies_arrive(bus, "large-bills", ['{"order":2,"amount":1500.50}'])
        failed = arrived(bus, "failed-orders", 2)
        reasons = [m.application_properties[b"DeadLetterErrorDescription"] for m in failed]
        assert reasons[0] == b"ValueError: order 4 has no customer"
        assert reasons[1].startswith(b"JSONDecodeError: Expecting value")
        assert bus.left("orders") == (0, 0, 0)
