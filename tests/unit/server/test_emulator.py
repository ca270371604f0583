"""Emulator mode: what is set when nobody says otherwise, and what is printed."""

import json
from pathlib import Path

import pytest

from partibus.domain.errors import ConfigError
from partibus.domain.limits import SELFHOST
from partibus.server import emulator
from partibus.server.config import ServeSettings, resolve_configuration
from partibus.server.emulator import greeting


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tools would put their file; nothing is there yet."""
    file = tmp_path / "Config.json"
    monkeypatch.setattr(emulator, "CONFIG_FILE", file)
    return file


def write(file: Path, queue: str) -> None:
    namespace = {"Name": "any", "Queues": [{"Name": queue}], "Topics": []}
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}), encoding="utf-8")


def paths(flags: dict[str, object], environment: dict[str, str]) -> list[str]:
    definitions = resolve_configuration(flags, environment).definitions
    return [] if definitions is None else [entity.path for entity in definitions.entities]


@pytest.mark.rule("EMU-6")
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("flags", "environment"),
    [({"emulator": True}, {}), ({}, {"PARTIBUS_EMULATOR": "true"})],
    ids=["flag", "variable"],
)
def test_ports_5672_and_5300_on_every_interface(
    flags: dict[str, object], environment: dict[str, str]
) -> None:
    given = {
        "ACCEPT_EULA": "Y",
        "SQL_SERVER": "db:1433",
        "MSSQL_SA_PASSWORD": "secret",
        "SQL_WAIT_INTERVAL": "0",
        "EMULATOR_HTTP_PORT": "",
    }
    configuration = resolve_configuration(flags, given | environment)
    assert configuration.settings == ServeSettings(
        emulator=True,
        host="*",
        port=5672,
        http_port=5300,
        tls_port=None,
        profile=SELFHOST,
    )
    assert configuration.origins["host"] == "--emulator"


@pytest.mark.usefixtures("place")
def test_a_file_can_switch_it_on(tmp_path: Path) -> None:
    file = tmp_path / "bus.toml"
    file.write_text('[server]\nemulator = true\n[[queue]]\nname = "mine"\n', encoding="utf-8")
    assert resolve_configuration({"config": file}, {}).settings.host == "*"
    assert paths({"config": file}, {}) == ["mine"]
    switched_off = {"PARTIBUS_EMULATOR": "false"}
    assert resolve_configuration({"config": file}, switched_off).settings.host == "127.0.0.1"


@pytest.mark.rule("EMU-6")
@pytest.mark.usefixtures("place")
def test_the_http_port_of_the_vendors_variable() -> None:
    environment = {"EMULATOR_HTTP_PORT": "5301"}
    configuration = resolve_configuration({"emulator": True}, environment)
    assert configuration.settings.http_port == 5301
    assert configuration.origins["http_port"] == "EMULATOR_HTTP_PORT"
    assert resolve_configuration({}, environment).settings.http_port == 5300
    with pytest.raises(ConfigError, match="EMULATOR_HTTP_PORT: 'x' is not a valid port"):
        resolve_configuration({"emulator": True}, {"EMULATOR_HTTP_PORT": "x"})


@pytest.mark.usefixtures("place")
def test_what_is_given_wins() -> None:
    flags = {"emulator": True, "host": "127.0.0.1", "http_port": "0", "tls_port": "0"}
    environment = {"EMULATOR_HTTP_PORT": "5301", "PARTIBUS_PORT": "7000"}
    settings = resolve_configuration(flags, environment).settings
    assert (settings.host, settings.http_port, settings.tls_port) == ("127.0.0.1", 0, 0)
    assert settings.port == 7000


@pytest.mark.rule("EMU-9")
def test_the_file_that_a_tool_put_there_is_read(place: Path, tmp_path: Path) -> None:
    flags = {"emulator": True}
    assert "queue.1" in paths(flags, {})
    write(place, "from-tool")
    assert paths(flags, {}) == ["from-tool"]
    assert paths({}, {}) == []
    configuration = resolve_configuration(flags, {})
    assert (configuration.settings.config, configuration.origins["config"]) == (
        place,
        "--emulator",
    )
    other = tmp_path / "other.json"
    write(other, "asked-for")
    assert paths(flags | {"config": other}, {}) == ["asked-for"]
    assert paths(flags, {"PARTIBUS_CONFIG": str(other)}) == ["asked-for"]


def test_a_mount_that_came_out_as_a_directory_is_named(place: Path) -> None:
    """What container engines make of a file to mount that is not there."""
    place.mkdir()
    with pytest.raises(ConfigError, match=r"Config\.json cannot be read: Is a directory"):
        resolve_configuration({"emulator": True}, {})


def test_tools_find_their_line_after_ours() -> None:
    assert greeting("PARTIBUS READY x", False) == "PARTIBUS READY x"
    assert greeting("PARTIBUS READY x", True).splitlines() == [
        "PARTIBUS READY x",
        "Emulator Service is Successfully Up!",
    ]
