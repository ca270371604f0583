"""Refusals leave a line each, up to a limit, and a count of the rest."""

import logging

import pytest

from partibus.domain.errors import BusError, Unauthorized
from partibus.domain.observing import notices
from partibus.domain.observing.notices import LINES_MAX, WINDOW_S, Limiter, audited, refused


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(notices, "LIMITER", Limiter(lambda: now[0]))
    return now


def facts(record: logging.LogRecord) -> dict[str, object]:
    return dict(record.__dict__["facts"])


def test_lines_are_limited_and_the_rest_is_counted(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(LINES_MAX + 7):
        refused("token refused", Unauthorized("No."), peer="1.2.3.4:5")
    refused("link refused", Unauthorized("No."))  # another kind has a limit of its own
    assert len(caplog.records) == LINES_MAX + 1
    clock[0] += WINDOW_S
    error = Unauthorized("Again no.")
    refused("token refused", error, peer="1.2.3.4:5")
    last = facts(caplog.records[-1])
    assert last["suppressed"] == 7
    assert last["tracking_id"] == error.tracking_id
    assert last["peer"] == "1.2.3.4:5"
    refused("token refused", error)
    assert "suppressed" not in facts(caplog.records[-1])


def test_a_change_leaves_one_line_however_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "partibus.audit")
    with audited("Root", "PUT q", "127.0.0.1"):
        pass
    with pytest.raises(BusError), audited("Root", "DELETE q", "127.0.0.1"):
        raise BusError("Not now.")
    done, failed = (facts(record) for record in caplog.records)
    assert done == {"who": "Root", "what": "PUT q", "where": "127.0.0.1", "outcome": "done"}
    assert failed["outcome"] == "refused"
    assert failed["condition"] == "amqp:internal-error"
