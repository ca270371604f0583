"""A server, a Celery worker beside it, and the application that sends it tasks."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import SOURCE, STOP_SECONDS_MAX, ServerProcess

HERE: Final = Path(__file__).parent
FLAGS: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat")


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("celery")
    config = directory / "namespace.toml"
    config.write_text("", encoding="utf-8")
    with ServerProcess(directory, config) as process:
        yield process


@pytest.fixture(scope="package")
def settings(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a user sets: where the broker is, and the CA that the admin client is to trust."""
    port = server.ready.amqp_port
    return {
        "ERRANDS_BROKER": f"azureservicebus://{ROOT_POLICY}:{ROOT_KEY}@localhost:{port}",
        "ERRANDS_RESULTS": str(tmp_path_factory.mktemp("results")),
        "REQUESTS_CA_BUNDLE": str(server.ready.ca),
    }


@pytest.fixture(autouse=True)
def _environment(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For each test: the tests of another folder, with another CA, may run between two of these."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="package")
def errands(settings: dict[str, str]) -> Iterator[ModuleType]:
    """The application in this process, to send tasks with; it reads its settings once."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.syspath_prepend(str(HERE))
        module = importlib.import_module("application")
    yield module
    module.app.close()


@pytest.fixture(scope="package")
def worker(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A worker as its users start it; yields its log."""
    log = tmp_path_factory.mktemp("worker") / "worker.log"
    command = [sys.executable, "-m", "celery", "--app", "application", "worker"]
    command += ["--pool", "solo", "--loglevel", "INFO", *FLAGS]
    environment = dict(os.environ) | settings | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}"}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=HERE)
    yield log
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
