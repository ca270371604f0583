"""A server that was forked is like one that was executed, to whoever started it."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.preloaded import ForkedProcess, start_forked
from support.server import PROGRAM, environment

Start = Callable[..., ForkedProcess]


@pytest.fixture
def errors(tmp_path: Path) -> Path:
    return tmp_path / "errors"


@pytest.fixture
def start(errors: Path) -> Start:
    def start(*arguments: str, **variables: str) -> ForkedProcess:
        with errors.open("ab") as file:
            return start_forked(arguments, environment() | variables, file.fileno())

    return start


def outcome(process: ForkedProcess) -> tuple[str, int]:
    with process.stdout as stream:
        printed = stream.read()
    return printed, process.wait(60)


def serve(*flags: str) -> tuple[str, ...]:
    return ("serve", "--memory", "--port", "0", "--tls-port", "0", "--http-port", "0", *flags)


def executed(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


def test_what_it_prints_and_its_exit_code(start: Start, errors: Path) -> None:
    with executed("serve", "--port", "many") as process:
        out, err = process.communicate(timeout=60)
    assert outcome(start("serve", "--port", "many")) == (out, process.returncode)
    assert errors.read_text(encoding="utf-8") == err
    assert process.returncode != 0


def test_signals(start: Start) -> None:
    for number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        process = start(*serve())
        assert process.stdout.readline().startswith("PARTIBUS READY")
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.send_signal(number)
        assert process.wait(60) == code
        process.kill()  # nothing happens: it has ended
        process.stdout.close()


def test_its_directory_its_environment_and_what_it_has_open(
    start: Start, errors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forked = start(*serve(), PARTIBUS_LOG_FORMAT="json")
    with executed(*serve()) as process:
        for each in (forked, process):
            assert each.stdout.readline().startswith("PARTIBUS READY")
        assert len(descriptors(forked.pid)) == len(descriptors(process.pid))
        assert Path(f"/proc/{forked.pid}/cwd").readlink() == tmp_path
        for each in (forked, process):
            each.send_signal(signal.SIGTERM)
            assert each.wait(60) == 0
            each.stdout.close()
    logged = errors.read_text(encoding="utf-8").splitlines()
    assert logged
    assert all(json.loads(line) for line in logged)


def test_two_at_once(start: Start) -> None:
    first, second = start(*serve()), start(*serve())
    assert first.pid != second.pid
    for process in (first, second):
        assert process.stdout.readline().startswith("PARTIBUS READY")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert first.poll() is None
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    for process in (first, second):
        process.stdout.close()
