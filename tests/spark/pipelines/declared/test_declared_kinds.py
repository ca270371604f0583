"""Ready-made pipelines from declared files, by `partibus pipeline run`: counted against the bus.

The files name what lies beside them, as the guide has it, and the tests run elsewhere.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow.parquet as parquet
import pytest

from cli.command import Done
from conformance.settlement.steps import until
from pyspark_servicebus.pipelines.run.state import load_state
from spark.bus import Bus
from spark.pipelines.arrivals import bodies_arrive
from spark.pipelines.deadletters.letters import Letter, Letters
from spark.pipelines.deadletters.ticks import tick
from spark.pipelines.declared.declared_files import Files
from spark.pipelines.watchers import After, interrupt

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]


class Declaring:
    """Files in a folder, run by the verb, and what is known of the runs."""

    def __init__(self, partibus: Callable[..., Done], place: Path) -> None:
        self.place, self._partibus = place, partibus

    def run(self, name: str, kind: str, own: str, more: str = "") -> Any:
        """Run a file that must do all that it says; its report."""
        done = self.try_("run", name, kind, own, more, "--json", "--metrics-file", self.metrics)
        assert done.code == 0, done.err
        return json.loads(done.out)

    def try_(
        self, verb: str, name: str, kind: str, own: str, more: str = "", *words: object
    ) -> Done:
        file = self.place / f"{name}.toml"
        file.write_text(f'kind = "{kind}"\n[{kind}]\n{own}\n{more}')
        return self._partibus(verb, file, "--state-dir", self.place / "state", *words)

    @property
    def metrics(self) -> Path:
        return self.place / "metrics.prom"

    def check_state(self, name: str, kind: str, rows: int) -> None:
        """`pipeline status` and the metrics tell the same, and both tell the truth."""
        done = self._partibus("status", name, "--json", "--state-dir", self.place / "state")
        [state] = done.json
        told = (state["name"], state["kind"], state["state"], state["rows"], state["error"])
        assert told == (name, kind, "finished", rows, None)
        lines = self.metrics.read_text().splitlines()
        labels = f'{{name="{name}",kind="{kind}"}}'
        for metric, value in (("rows_total", rows), ("running", 0), ("failed", 0)):
            assert f"partibus_pipeline_{metric}{labels} {value}" in lines


@pytest.fixture
def declaring(partibus: Callable[..., Done], tmp_path: Path) -> Declaring:
    return Declaring(partibus, tmp_path)


def test_a_capture_and_its_replay(declaring: Declaring, bus: Bus) -> None:
    queue, again = bus.queue(), bus.queue()
    sent = bus.fill(queue, 40)
    own = f'entity = "{queue}"\ntarget = "lake"'
    assert declaring.run("lake", "capture", own)["rows"] == 40
    assert (declaring.place / "lake" / "_capture").is_dir()
    declaring.check_state("lake", "capture", 40)

    own = f'entity = "{again}"\nsource = "lake"\nfilter = "cast(cast(body as string) as int) < 30"'
    report = declaring.run("back", "replay", own)
    assert (report["rows"], report["source"]) == (30, str(declaring.place / "lake"))
    bodies_arrive(bus, again, sent[:30])
    declaring.check_state("back", "replay", 30)
    [kept] = (declaring.place / "state" / "replays").iterdir()
    assert json.loads(kept.read_text())["rows"] == 30


RULES = """
[[rule]]
name = "again"
when = { reason = "Busy" }
action = "resubmit"
[[rule]]
name = "aside"
when = { reason = "Odd" }
action = "park"
target = "TARGET"
"""


def test_dead_letters(declaring: Declaring, bus: Bus) -> None:
    queue, parked = bus.queue(), bus.queue("plain")
    reasons = ["Busy"] * 5 + ["Odd"] * 3 + ["Else"] * 2
    letters = Letters(bus.connection_string)
    letters.bury(queue, [Letter(b"%d" % n, reason) for n, reason in enumerate(reasons)])
    (declaring.place / "rules.toml").write_text(RULES.replace("TARGET", parked))
    looking = f'entities = ["{queue}"]\noutput = "dead"'
    report = declaring.run("look", "deadletters", looking)
    assert (report["total"], report["rules"]) == (10, [])
    declaring.check_state("look", "deadletters", 10)
    report = declaring.run("triage", "deadletters", f'{looking}\nrules = "rules.toml"')
    assert [(rule["rule"], rule["done"]) for rule in report["rules"]] == [
        ("again", 5),
        ("aside", 3),
    ]
    assert report["without_rule"] == 2
    declaring.check_state("triage", "deadletters", 8)
    assert letters.bodies(queue) == [b"%d" % n for n in range(5)]
    until("parked messages", lambda: bus.totals(parked)["active"] == 3)
    assert letters.bodies(parked) == [b"5", b"6", b"7"]
    assert letters.dead_bodies(queue) == [b"8", b"9"]
    causes = parquet.read_table(declaring.place / "dead" / "causes.parquet").to_pylist()
    found = {(cause["reason"], cause["count"]) for cause in causes}
    assert found == {("Busy", 5), ("Odd", 3), ("Else", 2)}


def test_analytics_of_what_waits_of_a_capture_and_of_a_stream(
    declaring: Declaring, bus: Bus
) -> None:
    queue = bus.queue()
    bus.fill(queue, 25)
    looking = f'entities = ["{queue}"]\noutput = "traffic"'
    report = declaring.run("waits", "analytics", looking)
    assert [(e["entity"], e["messages"]) for e in report["entities"]] == [(queue, 25)]
    windows = parquet.read_table(declaring.place / "traffic" / "windows.parquet")
    assert sum(windows["messages"].to_pylist()) == 25
    declaring.check_state("waits", "analytics", 25)

    assert declaring.run("lake", "capture", f'entity = "{queue}"\ntarget = "lake"')["rows"] == 25
    report = declaring.run("past", "analytics", 'captured = "lake"\noutput = "past"')
    assert (report["source"], report["entities"][0]["messages"]) == ("captured", 25)

    own = f'entities = ["{queue}"]\noutput = "passes"\nmode = "stream"\nwindow = "1s"'
    own += '\nwatermark = "0s"'
    assert declaring.run("passes", "analytics", own)["read_now"] == 25
    last = bus.peek(queue)[-1].enqueued_time_utc
    until("a later second", lambda: tick(bus, queue) > last)
    counts = Counter(m.enqueued_time_utc.replace(microsecond=0) for m in bus.peek(queue))
    report = declaring.run("passes", "analytics", own)
    assert report["read_now"] == sum(counts.values()) - 25
    closed = sum(count for start, count in counts.items() if start < max(counts))
    assert sum(window["messages"] for window in report["windows"]) == closed
    declaring.check_state("passes", "analytics", sum(counts.values()) - 25)


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize(
    ("kind", "own", "told"),
    [
        (
            "replay",
            'entity = "nowhere"\nsource = "lake"',
            ":3: entity: there is no entity 'nowhere'",
        ),
        ("replay", 'entity = "plain-0"\nsource = "lake"', ":4: source: there is no capture"),
        ("deadletters", 'rules = "none.toml"', "none.toml"),
        ("deadletters", 'entities = ["none*"]', ":3: entities: no queue or subscription matches"),
        ("analytics", 'output = "x"\nentities = ["none*"]', ":4: entities: no queue or subscr"),
        ("analytics", 'output = "x"\ncursor = "c"', ":4: cursor: it requires mode"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    declaring: Declaring, verb: str, kind: str, own: str, told: str
) -> None:
    done = declaring.try_(verb, "wrong", kind, own)
    assert (done.code, done.out) == (2, ""), done.err
    assert told in done.err


def test_a_stream_that_goes_on_is_declared_by_its_schedule(
    files: Files, bus: Bus, tmp_path: Path
) -> None:
    """Interrupted it has done its work: the report is written, and the run is no failure."""
    queue = bus.queue("plain")
    bus.fill(queue, 7)
    text = f"""
        kind = "analytics"
        name = "going"
        [analytics]
        entities = ["{queue}"]
        output = "traffic"
        mode = "stream"
        trigger = "200ms"
        [schedule]
        continuous = true
        [metrics]
        port = 0
        """
    metrics: list[str] = []

    def look_and_interrupt() -> None:
        with urlopen(f"http://127.0.0.1:{files.port}/metrics") as answer:
            metrics.extend(answer.read().decode().splitlines())
        interrupt()

    assert files.run(text, After(look_and_interrupt)).read_now == 7
    labels = '{name="going",kind="analytics"}'
    assert {f"partibus_pipeline_rows_total{labels} 7", f"partibus_pipeline_running{labels} 1"} <= {
        *metrics
    }
    assert json.loads((tmp_path / "traffic" / "report.json").read_text())["read_now"] == 7
    state = load_state(tmp_path / "state" / "going.json")
    assert state is not None
    assert (state.status, state.rows) == ("finished", 7)
