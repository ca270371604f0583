"""The state of pipelines: one file each, whole at every moment, and the same for Prometheus."""

from pathlib import Path

import pytest

from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.state import (
    RecordedProgress,
    default_state_dir,
    load_states,
    metrics_text,
    write_atomically,
)


def test_a_run_from_start_to_end(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics" / "pipeline.prom"
    recorded = RecordedProgress("nightly", "capture", tmp_path, metrics)
    recorded.started("nightly", 30)
    [state] = load_states(tmp_path)
    assert (state.status, state.rows, state.lag) == ("running", 0, 30)
    recorded.advanced(20, 10, 0)
    recorded.advanced(10, 0, 1)
    recorded.finished()
    [state] = load_states(tmp_path)
    assert (state.status, state.rows, state.lag, state.last_batch) == ("finished", 30, 0, 1)
    assert state.rate > 0
    assert 'partibus_pipeline_rows_total{name="nightly",kind="capture"} 30\n' in metrics.read_text()


def test_a_failure_is_kept(tmp_path: Path) -> None:
    recorded = RecordedProgress("nightly", "capture", tmp_path)
    recorded.failed("The target is full.")
    [state] = load_states(tmp_path)
    assert (state.status, state.error) == ("failed", "The target is full.")
    assert 'partibus_pipeline_failed{name="nightly",kind="capture"} 1\n' in metrics_text([state])


def test_a_name_is_a_file_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is no name"):
        RecordedProgress("../x", "capture", tmp_path)


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "torn.json").write_text('{"version"')
    assert load_states(tmp_path) == []


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "\ud800")
    assert file.read_text() == "old"


def test_the_directory_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_state_dir() == tmp_path / "partibus" / "pipelines"
