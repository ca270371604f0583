"""Failures become one line and a code; control flow passes through."""

import ssl

import pytest
import typer

from partibus.amqp.errors import AmqpError
from partibus.cli.failures import CommandFailed, reported, translated, unreachable
from partibus.client.errors import AtomError, RemoteError


def refusal(condition: str, text: str = "So it is.") -> RemoteError:
    return RemoteError(AmqpError(condition, text), "somewhere")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (refusal("amqp:not-found"), 4),
        (refusal("amqp:unauthorized-access"), 6),
        (refusal("amqp:connection:forced"), 5),
        (refusal("com.microsoft:argument-error"), 2),
        (refusal("com.microsoft:server-busy"), 1),
        (AtomError(404, "gone"), 4),
        (AtomError(409, "there"), 8),
        (AtomError(500, "broken"), 1),
        (TimeoutError(), 5),
        (FileNotFoundError(2, "No such file", "x"), 1),
        (CommandFailed("no", 7), 7),
        (KeyError("ours"), 1),
    ],
)
def test_each_failure_has_its_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught, reported():
        raise error
    assert caught.value.exit_code == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("partibus: ")
    assert captured.err.count("\n") == 1


def test_our_own_mistakes_show_themselves_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    told_so = translated(KeyError("x"))
    assert told_so is not None
    assert "PARTIBUS_DEBUG=1" in told_so.text
    monkeypatch.setenv("PARTIBUS_DEBUG", "1")
    with pytest.raises(KeyError), reported():
        raise KeyError("x")


def test_control_flow_passes() -> None:
    for error in (typer.Exit(3), typer.Abort(), typer.BadParameter("x")):
        with pytest.raises(type(error)), reported():
            raise error


def test_ctrl_c_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught, reported():
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == ""


def test_ids_for_the_log_are_left_out() -> None:
    text = "It is gone. TrackingId:abc, SystemTracker:x, Timestamp:2026-01-01"
    told_so = translated(refusal("com.microsoft:server-busy", text))
    assert told_so is not None
    assert told_so.text == "It is gone."


def test_what_prevents_a_connection_is_told_with_advice() -> None:
    assert "partibus serve" in unreachable("amqp://b", ConnectionRefusedError(111, "refused")).text
    assert "very busy" in unreachable("amqp://b", TimeoutError()).text
    assert (
        "UseDevelopmentEmulator" in unreachable("amqps://b", ssl.SSLError(1, "wrong version")).text
    )
