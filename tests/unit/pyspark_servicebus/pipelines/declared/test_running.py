"""The schedule of a declared pipeline at work, with a clock that is told what to say."""

import datetime
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_servicebus.pipelines.declared import running as module
from pyspark_servicebus.pipelines.declared.file import load_declared
from pyspark_servicebus.pipelines.declared.running import DeclaredRun
from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.state import load_state

NOON = datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC)
FILE = (
    'name = "p"\n[source]\nqueue = "a"\n[sink]\nqueue = "b"\n[schedule]\n{}\n[metrics]\nport = 0\n'
)


@dataclass
class Report:
    lacking: str | None = None

    def shortfall(self) -> str | None:
        return self.lacking

    def as_text(self) -> str:
        return "done"

    def as_json(self) -> str:
        return "{}"


@dataclass
class Bench:
    """A run whose pipeline is a list of functions, one for each run."""

    tmp_path: Path
    schedule: str
    works: list[Callable[["Bench"], None]]
    now: datetime.datetime = NOON
    told: list[str] = field(default_factory=list)
    began: list[datetime.datetime] = field(default_factory=list)
    port: int = 0
    lacking: str | None = None
    """What its runs fall short of."""

    def report(self, report: Any) -> None:
        self.told.append(report.as_text())

    def failed(self, error: Exception) -> None:
        self.told.append(f"failed: {error}")

    def waiting(self, until: datetime.datetime) -> None:
        self.told.append(f"until {until:%H:%M}")

    def serving(self, port: int) -> None:
        self.port = port

    # An event that ends the time at once instead of waiting.
    def wait(self, seconds: float) -> bool:
        self.now += datetime.timedelta(seconds=seconds)
        return not self.works

    def is_set(self) -> bool:
        return not self.works

    def run(self) -> "Bench":
        file = self.tmp_path / "p.toml"
        file.write_text(FILE.format(self.schedule), encoding="utf-8")
        declared = load_declared(file, BusPlace(connection_string_ref="env:BUS"))
        DeclaredRun(
            replace(declared, kind=Kind(self)),  # type: ignore[arg-type]
            lambda: None,  # type: ignore[arg-type, return-value]
            self,
            self.tmp_path,
            clock=lambda: self.now,
            stopped=self,  # type: ignore[arg-type]
        ).go()
        return self


@dataclass
class Kind:
    """A pipeline that does what the bench says."""

    bench: Bench
    name: str = "transform"
    entities: tuple[str, ...] = ()

    def places(self) -> dict[str, Any]:
        return {}

    def run(self, spark: Any, settings: Any, progress: Any) -> Any:
        self.bench.began.append(self.bench.now)
        self.bench.works.pop(0)(self.bench)
        progress.advanced(5, 2, 0)
        return Report(self.bench.lacking)


@pytest.fixture(autouse=True)
def _no_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "check_names", lambda declared: None)


def takes(minutes: float) -> Callable[[Bench], None]:
    def work(bench: Bench) -> None:
        bench.now += datetime.timedelta(minutes=minutes)

    return work


def fails(error: BaseException) -> Callable[[Bench], None]:
    def work(bench: Bench) -> None:
        raise error

    return work


def minutes(bench: Bench) -> list[float]:
    return [(moment - NOON).total_seconds() / 60 for moment in bench.began]


def test_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "once = true", [takes(1)]).run()
    assert (bench.told, minutes(bench)) == (["done"], [0])
    state = load_state(tmp_path / "p.json")
    assert state is not None
    assert (state.status, state.rows, state.lag) == ("finished", 5, 2)


def test_every_five_minutes_without_overlap(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 'every = "5m"', [takes(1), takes(7), takes(0), takes(1)]).run()
    assert minutes(bench) == [0, 5, 15, 20]
    assert bench.told[:3] == ["done", "until 12:05", "done"]


def test_at_times(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 'at = "*/30 * * * *"', [takes(1), takes(1)]).run()
    assert minutes(bench) == [30, 60]


def test_a_run_that_fails_is_followed_by_the_next(tmp_path: Path) -> None:
    works = [fails(PipelineFailed("the bus is away.")), takes(1)]
    bench = Bench(tmp_path, 'every = "5m"', works).run()
    assert bench.told == ["failed: the bus is away.", "until 12:05", "done", "until 12:10"]


def test_a_run_that_falls_short_is_told_and_is_a_failure(tmp_path: Path) -> None:
    words = "1 dead letter was not moved."
    with pytest.raises(PipelineFailed, match=words):
        Bench(tmp_path, "once = true", [takes(1)], lacking=words).run()
    state = load_state(tmp_path / "p.json")
    assert state is not None
    assert (state.status, state.error, state.rows) == ("failed", words, 5)
    bench = Bench(tmp_path, 'every = "5m"', [takes(1), takes(1)], lacking=words).run()
    assert bench.told[:4] == ["done", f"failed: {words}", "until 12:05", "done"]


def test_settings_that_are_wrong_end_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        Bench(tmp_path, 'every = "5m"', [fails(SettingsError("no")), takes(1)]).run()
    state = load_state(tmp_path / "p.json")
    assert state is not None
    assert (state.status, state.error) == ("failed", f"{tmp_path}/p.toml: no")


def test_an_interruption_ends_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Bench(tmp_path, 'every = "5m"', [fails(KeyboardInterrupt()), takes(1)]).run()


def test_the_same_pipeline_does_not_run_twice(tmp_path: Path) -> None:
    def again(bench: Bench) -> None:
        with pytest.raises(PipelineFailed, match="'p' is already running on this machine"):
            Bench(tmp_path, "once = true", [takes(1)]).run()

    assert Bench(tmp_path, "once = true", [again]).run().told == ["done"]


def test_metrics_are_answered_meanwhile(tmp_path: Path) -> None:
    def look(bench: Bench) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{bench.port}/metrics") as answer:
            assert (
                'partibus_pipeline_running{name="p",kind="transform"} 1' in answer.read().decode()
            )
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{bench.port}/else")

    assert Bench(tmp_path, "once = true", [look]).run().told == ["done"]
