"""`partibus serve`: how flags become settings, and settings an exit code."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree
from partibus.domain.limits import PREMIUM
from partibus.server import lifecycle
from partibus.server.config import Configuration, ServeSettings

# Exit code, settings that would have been served, stderr.
Outcome = tuple[int, ServeSettings | None, str]
Serve = Callable[..., Outcome]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Invoke the verb without starting anything."""
    for name in os.environ:
        if name.startswith("PARTIBUS_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("partibus.ops.logging.configure_logging", lambda *given, **named: None)

    def invoke(*flags: str, code: int = 0, env: dict[str, str] | None = None) -> Outcome:
        runs: list[Configuration] = []

        def run(configuration: Configuration) -> int:
            runs.append(configuration)
            return code

        monkeypatch.setattr(lifecycle, "run", run)
        result = CliRunner().invoke(command_tree(["serve"]), ["serve", *flags], env=env)
        return result.exit_code, runs[0].settings if runs else None, result.stderr

    return invoke


def test_without_flags_the_defaults_hold(serve: Serve) -> None:
    assert serve() == (0, ServeSettings(), "")


def test_every_flag_arrives(serve: Serve) -> None:
    code, settings, _ = serve(
        *("--data", "elsewhere", "--memory", "--host", "0.0.0.0", "--port", "0"),
        *("--tls-port", "none", "--http-port", "8080", "--stores", "3"),
        *("--workers", "2", "--profile", "premium", "--faults"),
        *("--metrics", "token", "--log-level", "debug", "--log-format", "json"),
        *("--audit-log", "audit.log"),
    )
    assert code == 0
    assert settings == ServeSettings(
        data=Path("elsewhere"),
        memory=True,
        host="0.0.0.0",
        port=0,
        tls_port=None,
        http_port=8080,
        metrics="token",
        log_level="debug",
        log_format="json",
        audit_log=Path("audit.log"),
        stores=3,
        workers=2,
        profile=PREMIUM,
        faults=True,
    )


def test_emulator_mode_may_be_asked_for(serve: Serve) -> None:
    _, settings, _ = serve("--emulator", "--http-port", "0")
    assert settings is not None
    assert (settings.emulator, settings.host, settings.http_port) == (True, "*", 0)


def test_stores_may_be_named_one_by_one(serve: Serve) -> None:
    _, settings, _ = serve("--store", "a", "--store", "b")
    assert settings is not None
    assert (settings.stores, settings.store_places) == (2, ("a", "b"))


def test_a_number_and_names_of_stores_exclude_each_other(serve: Serve) -> None:
    code, settings, _ = serve("--store", "a", "--stores", "2")
    assert (code, settings) == (2, None)


def test_a_flag_wins_over_the_environment(serve: Serve) -> None:
    env = {"PARTIBUS_PORT": "7000", "PARTIBUS_MEMORY": "true"}
    _, settings, _ = serve("--port", "7001", env=env)
    assert settings is not None
    assert (settings.port, settings.memory) == (7001, True)


def test_the_exit_code_is_the_run_s(serve: Serve) -> None:
    assert serve(code=3)[0] == 3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--port", "high"), "--port: 'high' is not a valid port"),
        (("--profile", "gold"), "--profile: 'gold' is not a valid profile"),
        (("--config", "missing.toml"), "missing.toml cannot be read"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_two(
    serve: Serve, flags: tuple[str, ...], words: str
) -> None:
    code, settings, stderr = serve(*flags)
    assert (code, settings) == (2, None)
    assert stderr.startswith(f"partibus: {words}")
    assert stderr.count("\n") == 1
