"""The process around a node: limits, loop, signals, the READY line, exit codes."""

import asyncio
import io
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partibus.server import lifecycle
from partibus.server.config import Configuration, ServeSettings


@pytest.fixture(autouse=True)
def switch_interval() -> Iterator[None]:
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def descriptor_limit() -> Iterator[tuple[int, int]]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def configuration(data: Path, **changes: object) -> Configuration:
    ports = {"port": 0, "tls_port": 0, "http_port": 0}
    return Configuration(ServeSettings(data=data, **(ports | changes)), None, {})


def test_a_signal_after_ready_ends_the_run_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def ready(line: str) -> None:
        lines.append(line)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(lifecycle, "announce", ready)
    assert lifecycle.run(configuration(tmp_path)) == 0
    (line,) = lines
    assert line.startswith("PARTIBUS READY amqp=127.0.0.1:")
    assert sys.getswitchinterval() == lifecycle.SWITCH_INTERVAL_S


def test_a_signal_during_the_start_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = lifecycle.Service.start

    async def interrupted(service: lifecycle.Service) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return await start(service)

    monkeypatch.setattr(lifecycle.Service, "start", interrupted)
    assert lifecycle.run(configuration(tmp_path)) == 0


def test_a_wrong_setting_is_one_line_and_exit_code_two(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = configuration(tmp_path, port=None, tls_port=None, http_port=None)
    assert lifecycle.run(wrong) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "partibus: all ports are disabled: give --port a number (0 picks a free one)\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_second_signal_leaves_at_once(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    stopped, left = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(os, "_exit", lambda code: (codes.append(code), left.set()))
    loop = asyncio.get_running_loop()
    lifecycle.install_signals(loop, stopped.set)
    try:
        os.kill(os.getpid(), number)
        await stopped.wait()
        assert codes == []
        os.kill(os.getpid(), number)
        await left.wait()
        assert codes == [128 + number]
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


def test_the_descriptor_limit_is_raised_as_far_as_allowed(
    descriptor_limit: tuple[int, int],
) -> None:
    _, hard = descriptor_limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    raised = lifecycle.raise_descriptor_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    assert raised > 256
    assert lifecycle.raise_descriptor_limit() == raised


def test_a_limit_that_cannot_be_raised_is_kept(
    descriptor_limit: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hard = descriptor_limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    def refuse(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", refuse)
        assert lifecycle.raise_descriptor_limit() == 256


@pytest.mark.parametrize("has_uvloop", [True, False])
def test_the_loop_is_uvloop_where_it_is_installed(
    has_uvloop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_uvloop:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = lifecycle.new_event_loop()
    assert type(loop).__module__.startswith("uvloop") is has_uvloop
    loop.close()


def test_the_ready_line_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw)))
    lifecycle.announce("PARTIBUS READY amqp=x")
    assert raw.getvalue() == b"PARTIBUS READY amqp=x\n"


def test_nobody_reading_the_ready_line_is_survived(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Gone())
    lifecycle.announce("PARTIBUS READY")
    monkeypatch.undo()
    assert "Broken pipe" in caplog.text


@pytest.mark.parametrize(
    ("error", "levels"),
    [
        (ConnectionResetError(), [logging.DEBUG]),
        (TimeoutError(), [logging.DEBUG]),
        (KeyError("ours"), [logging.ERROR]),
        (None, [logging.ERROR]),
    ],
)
def test_only_our_own_mistakes_are_loud(
    error: Exception | None, levels: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lifecycle.log_loop_exception)
    with caplog.at_level(logging.DEBUG, lifecycle.__name__):
        loop.call_exception_handler({"message": "in a callback", "exception": error})
    loop.close()
    ours = [record for record in caplog.records if record.name == lifecycle.__name__]
    assert [record.levelno for record in ours] == levels


def test_stop_is_called_by_the_first_signal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop:
        def __init__(self) -> None:
            self.handlers: dict[int, Callable[[int], None]] = {}

        def add_signal_handler(
            self, number: int, handler: Callable[[int], None], *_: object
        ) -> None:
            self.handlers[number] = handler

    stops: list[str] = []
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    loop = Loop()
    lifecycle.install_signals(loop, lambda: stops.append("stop"))
    loop.handlers[signal.SIGINT](signal.SIGINT)
    assert (stops, exits) == (["stop"], [])
    loop.handlers[signal.SIGTERM](signal.SIGTERM)
    assert exits == [128 + signal.SIGTERM]


def test_a_start_loads_no_web_framework() -> None:
    """The first HTTP request does: a start is to take little time."""
    code = "import partibus.server.lifecycle, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(lifecycle.__file__).parents[2])},
    ).stdout.split()
    assert "partibus.server.node" in loaded
    assert not {"starlette", "uvicorn", "wsproto", "lark", "pydantic"} & set(loaded)
