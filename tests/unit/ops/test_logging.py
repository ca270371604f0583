"""The forms of the log, its level and its audit file."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from partibus.domain.errors import ArgumentError
from partibus.ops.logging import AUDIT, configure_logging, level_now, set_level


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("", "asyncio", AUDIT)]
    kept = [(list(one.handlers), one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, kept, strict=True):
        for handler in one.handlers:
            if isinstance(handler, logging.FileHandler) and handler not in handlers:
                handler.close()
        one.handlers[:] = handlers
        one.setLevel(level)
        one.propagate = propagate


def test_a_record_is_one_line_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    configure_logging()
    logging.getLogger("partibus.store").info("segment %d opened", 7)
    logging.getLogger("partibus.store").debug("not shown")
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} INFO    partibus\.store: segment 7 opened\n", err
    )


def test_facts_stand_behind_the_text_and_stay_on_its_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure_logging()
    facts = {"peer": "1.2.3.4:5", "link": "a b\nERROR forged"}
    logging.getLogger("partibus.refused").warning("no\nnew line", extra={"facts": facts})
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith(r'refused: no\nnew line peer=1.2.3.4:5 link="a b\nERROR forged"' + "\n")


def test_json_is_an_object_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging(process="worker 1", form="json")
    logging.getLogger("x").warning("a\n%s", "b", extra={"facts": {"tracking_id": "t"}})
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("x").exception("failed")
    first, second = map(json.loads, capfd.readouterr().err.splitlines())
    assert first["message"] == "a\nb"
    assert (first["level"], first["process"], first["tracking_id"]) == ("warning", "worker 1", "t")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert "ValueError: why" in second["exception"]


def test_the_level_changes_while_it_runs(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning")
    logging.getLogger("x").info("hidden")
    set_level("debug")
    assert level_now() == "debug"
    logging.getLogger("x").debug("shown")
    err = capfd.readouterr().err
    assert "hidden" not in err
    assert "shown" in err
    with pytest.raises(ArgumentError, match="'loud' is not a valid level"):
        set_level("loud")


def test_the_audit_log_has_a_file_that_is_nobody_elses(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.log"
    configure_logging("error", audit=path)
    logging.getLogger(AUDIT).info("change made", extra={"facts": {"who": "Root"}})
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["who"] == "Root"
    assert path.stat().st_mode & 0o777 == 0o600
    assert capfd.readouterr().err == ""
