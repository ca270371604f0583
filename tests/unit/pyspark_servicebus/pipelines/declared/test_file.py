"""Declared files: what they mean, and what is told about them."""

from pathlib import Path

import pytest

from pyspark_servicebus.pipelines.declared.file import Declared, FileError, load_declared
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.transform.outlets import (
    ConsoleOutlet,
    DeltaOutlet,
    ParquetOutlet,
)

BUS = BusPlace(connection_string_ref="env:BUS")
WHOLE = """\
name = "bills"
checkpoint = "here"

[bus]
connection_string_ref = "file:bus.txt"

[source]
topic = "orders"
subscription = "all"
mode = "cursor"
max_messages = 7
fail_on_data_loss = false
fragments = [0, 3]

[[step]]
filter = "subject is not null"
[[step]]
stateful = "work.py:counted"
key = ["session_id"]
forget_after = "1h"
arguments = { start = 3 }

[sink]
queue = "bills"
deliver = "dedup"
dedup_key = ["message_id"]
batch_bytes = "2m"

[schedule]
every = "5m"

[spark]
master = "spark://host:7077"
[spark.conf]
spark.executor.memory = "2g"
"spark.sql.shuffle.partitions" = 4
spark.speculation = true

[metrics]
file = "out.prom"
port = 9100
"""


def declared(tmp_path: Path, text: str) -> Declared:
    file = tmp_path / "p.toml"
    file.write_text(text, encoding="utf-8")
    return load_declared(file, BUS, tmp_path / "state")


def test_a_whole_file(tmp_path: Path) -> None:
    found = declared(tmp_path, WHOLE)
    settings = found.settings
    assert (found.name, found.kind.name, found.schedule.every_ms) == ("bills", "transform", 300_000)
    assert found.master == "spark://host:7077"
    assert found.conf == {
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.speculation": "true",
    }
    assert (found.metrics_file, found.metrics_port) == (tmp_path / "out.prom", 9100)
    assert settings.bus == BusPlace(connection_string_ref="file:bus.txt")
    assert settings.source == "orders/Subscriptions/all"
    assert (settings.owner, settings.checkpoint) == ("bills", str(tmp_path / "here"))
    assert [step.kind for step in settings.all_steps()] == ["filter", "stateful"]
    assert settings.all_steps()[1].options["arguments"] == {"start": 3}
    assert settings.read_options() == {
        "connectionStringRef": "file:bus.txt",
        "topic": "orders",
        "subscription": "all",
        "mode": "cursor",
        "cursor": "bills",
        "maxMessagesPerTrigger": "7",
        "failOnDataLoss": "false",
        "fragments": "0,3",
    }
    assert dict(settings.outlet_for("queue").options) == {
        "connectionStringRef": "file:bus.txt",
        "queue": "bills",
        "deliver": "dedup",
        "dedupKey": "message_id",
        "extraColumns": "refuse",
        "batchBytes": "2m",
    }


def test_a_small_file(tmp_path: Path) -> None:
    found = declared(tmp_path, '[source]\nqueue = "a"\n[sink]\ntopic = "b"\n')
    assert (found.name, found.schedule.kind, found.settings.bus) == ("p", "once", BUS)
    assert found.settings.checkpoint == str(tmp_path / "state" / "checkpoints" / "p")
    assert found.settings.deliver == "staged"
    assert found.settings.outlet_for("topic").options["topic"] == "b"


@pytest.mark.parametrize(
    ("sink", "outlet"),
    [
        ('parquet = "/lake/x"', ParquetOutlet("/lake/x")),
        ('delta = "s3://lake/x"', DeltaOutlet("s3://lake/x")),
        ("console = true", ConsoleOutlet()),
        ("console = 5", ConsoleOutlet(5)),
    ],
)
def test_sinks_beside_the_bus(tmp_path: Path, sink: str, outlet: object) -> None:
    found = declared(tmp_path, f'[source]\nqueue = "a"\n[sink]\n{sink}\n')
    assert found.settings.outlet == outlet


def test_relative_paths_are_beside_the_file(tmp_path: Path) -> None:
    found = declared(tmp_path, '[source]\nqueue = "a"\n[sink]\nparquet = "lake"\n')
    assert found.settings.outlet == ParquetOutlet(str(tmp_path / "lake"))


def test_a_ready_made_kind(tmp_path: Path) -> None:
    text = 'kind = "capture"\n[capture]\nentity = "orders"\ntarget = "/lake"\n'
    found = declared(tmp_path, text + "[schedule]\ncontinuous = true\n")
    assert (found.kind.name, found.settings.entity) == ("capture", "orders")
    assert found.settings.continuous
    assert found.settings.bus == BUS


BROKEN = """\
nam = "x"
[source]
queue = "a"
mod = "claim"
[[step]]
filtr = "x"
[[step]]
sql = 7
[sink]
queue = "b"
deliver = "perhaps"
[shedule]
every = "5m"
[spark]
mastre = "x"
[metrics]
port = "http"
"""


def test_everything_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        declared(tmp_path, BROKEN)
    told = [line.removeprefix(f"{tmp_path}/p.toml:") for line in str(caught.value).splitlines()]
    assert told == [
        "1: nam: unknown key; did you mean name?",
        "4: mod: unknown key; did you mean mode?",
        "6: step 1: filtr: unknown key; did you mean filter?",
        "8: step 2 (sql): a string is needed, not 7.",
        "11: deliver: 'perhaps' is not one of staged, dedup, atLeastOnce.",
        "12: shedule: unknown key; did you mean schedule?",
        "15: mastre: unknown key; did you mean master?",
        "17: port: expected a port number, for example 9100.",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[source]\nqueue = ?", r"this is not valid TOML: .*line 2"),
        ("", "p.toml: source: it is missing"),
        ('kind = "captre"', r"1: kind: there is no pipeline 'captre'; did you mean capture\?"),
        (
            'kind = "captre"\n[source]\nqueue = "a"',
            r"^\S+:1: kind: there is no pipeline 'captre';[^\n]*$",
        ),
        ('[source]\ntopic = "a"\n[sink]\nqueue = "b"', "1: source: write queue, or topic and"),
        ('[source]\nqueue = "a"\n[sink]\n', "target: it is missing"),
        ('[source]\nqueue = "a"\n[sink]\nqueue = "b"\nparquet = "c"', "target: write one of"),
        ('[source]\nqueue = "a"\n[sink]\nparquet = 7', "4: target: parquet: expected a string"),
        ('[bus]\nconnection_string_ref = "x"', r"2: bus.connection_string_ref: it begins with"),
        ('kind = "capture"\n[capture]\nentity = "a"\n', "2: target: it is missing"),
        ('kind = "capture"\n[capture]\nentty = "a"\ntarget = "b"', "3: entty: .*entity"),
        (
            'kind = "capture"\n[source]\nqueue = "a"',
            r"2: source: .*has its settings in \[capture\]",
        ),
        ('name = "a/b"', "1: name: 'a/b' is not a valid name"),
        ('name = "x"\n[schedule]\nat = "noon"', "3: at: 'noon' is not a valid time"),
        (
            '[source]\nqueue = "a"\n[sink]\nqueue = "b"\n[[step]]\nsql = "x"\nfilter = "y"',
            "6: .*separate",
        ),
    ],
)
def test_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FileError, match=words):
        declared(tmp_path, text)


def test_a_bus_that_is_forced(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(WHOLE, encoding="utf-8")
    assert load_declared(file, BUS, is_bus_forced=True).settings.bus == BUS


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        load_declared(tmp_path / "absent.toml")
