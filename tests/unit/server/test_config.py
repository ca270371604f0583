"""Settings of `serve`: defaults, file, environment and flags, in that order."""

from pathlib import Path

import pytest

from partibus.domain.errors import ConfigError
from partibus.domain.limits import EMULATOR, SELFHOST, STANDARD
from partibus.server.config import (
    Configuration,
    ServeSettings,
    is_loopback,
    resolve_configuration,
)
from partibus.server.setting_values import READERS
from partibus.store.files.room import FreeMin


def write(folder: Path, text: str, name: str = "bus.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def complaint(flags: dict[str, object], environment: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve_configuration(flags, environment)
    return caught.value.text


def test_nothing_said_gives_the_defaults() -> None:
    configuration = resolve_configuration({"port": None, "stores": ()}, {"PATH": "/bin"})
    assert configuration.settings == ServeSettings(
        data=Path("partibus-data"),
        memory=False,
        config=None,
        host="127.0.0.1",
        port=5672,
        tls_port=5671,
        http_port=5300,
        stores=1,
        store_places=(),
        workers=1,
        profile=SELFHOST,
    )
    assert configuration.definitions is None
    assert set(configuration.origins.values()) == {"default"}


def test_every_setting_from_the_file(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """\
[server]
data = "store"
memory = true
host = "0.0.0.0"
port = 0
tls_port = "none"
http_port = 8080
stores = 3
workers = 2
profile = "standard"

[tls]
cert = "bus.pem"
key = "/srv/bus-key.pem"
""",
    )
    configuration = resolve_configuration({"config": str(file)}, {})
    assert configuration.settings == ServeSettings(
        data=tmp_path / "store",
        memory=True,
        config=file,
        host="0.0.0.0",
        port=0,
        tls_port=None,
        http_port=8080,
        tls_cert=tmp_path / "bus.pem",
        tls_key=Path("/srv/bus-key.pem"),
        stores=3,
        workers=2,
        profile=STANDARD,
    )
    assert configuration.origins["http_port"] == f"{file}:7"
    assert configuration.origins["config"] == "--config"


def test_a_way_of_peeking_that_there_is_not_is_refused() -> None:
    text = complaint({"peek_partitioned": "oldest"}, {})
    assert text == (
        "--peek-partitioned: 'oldest' is not allowed; allowed: merged and first-responder."
    )


def test_every_setting_from_the_environment() -> None:
    values = {
        "data": "/srv/bus",
        "memory": "1",
        "host": "::1",
        "port": "0",
        "tls_port": "none",
        "http_port": "NONE",
        "tls_cert": "/srv/bus.pem",
        "tls_key": "bus-key.pem",
        "stores": "4",
        "workers": "8",
        "cluster_tls": "/srv/cluster",
        "lanes": "24",
        "peer_host": "10.0.0.1",
        "peer_port": "5674",
        "worker_timeout_s": "9",
        "keep_locks": "no",
        "profile": "emulator",
        "console": "read-only",
        "faults": "yes",
        "disk_free_min": "300 MiB",
        "peek_partitioned": "first-responder",
        "forward_failures_to_transfer": "on",
        "flight_port": "5673",
        "memory_limit": "2G",
        "emulator": "on",
        "fake_time": "off",
        "testing": "off",
        "metrics": "token",
        "otel": "on",
        "log_level": "debug",
        "log_format": "json",
        "audit_log": "/srv/audit.log",
        "encryption_key_file": "/srv/bus.key",
        "encryption_key_command": "print-key --of bus",
    }
    # A cluster does not go together with some of these: see `nodes.test_settings`.
    assert {*values, "cluster"} == set(READERS)
    environment = {f"PARTIBUS_{key.upper()}": value for key, value in values.items()}
    assert resolve_configuration({}, environment).settings == ServeSettings(
        data=Path("/srv/bus"),
        memory=True,
        host="::1",
        port=0,
        tls_port=None,
        http_port=None,
        tls_cert=Path("/srv/bus.pem"),
        tls_key=Path("bus-key.pem"),
        stores=4,
        workers=8,
        cluster_tls=Path("/srv/cluster"),
        lanes=24,
        peer_host="10.0.0.1",
        peer_port=5674,
        worker_timeout_s=9,
        keep_locks=False,
        profile=EMULATOR,
        console="read-only",
        faults=True,
        disk_free_min=FreeMin(0.0, 300 << 20),
        peek_partitioned="first-responder",
        forward_failures_to_transfer=True,
        flight_port=5673,
        memory_limit=2 << 30,
        emulator=True,
        metrics="token",
        otel=True,
        log_level="debug",
        log_format="json",
        audit_log=Path("/srv/audit.log"),
        encryption_key_file=Path("/srv/bus.key"),
        encryption_key_command="print-key --of bus",
    )


def test_telemetry_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partibus.server.telemetry.environment.find_spec", lambda name: None)
    assert "pip install 'partibus[otel]'" in complaint({"otel": True}, {})


@pytest.mark.parametrize(
    ("given", "size"),
    [(16 << 20, 16 << 20), ("64M", 64 << 20), ("64 MiB", 64 << 20), ("20000kb", 20_000 << 10)],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(given: object, size: int) -> None:
    settings = resolve_configuration({"memory_limit": given}, {}).settings
    assert settings.memory_limit == size


@pytest.mark.parametrize("given", ["", "much", "-1G", "1.G", "15M", "G", True])
def test_a_size_that_cannot_be_used_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^--memory-limit: "):
        resolve_configuration({"memory_limit": given}, {})


@pytest.mark.parametrize(("given", "missing"), [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_a_certificate_needs_its_key(given: str, missing: str) -> None:
    text = complaint({given: "a.pem"}, {})
    assert text == f"{given} was given without {missing}; a certificate needs its key."


def test_the_file_has_one_place_for_certificates(tmp_path: Path) -> None:
    file = write(tmp_path, '[server]\ntls_cert = "a.pem"\n')
    assert "tls_cert" in complaint({"config": file}, {})
    file = write(tmp_path, '[tls]\ncertificate = "a.pem"\n')
    assert f"{file}:2" in complaint({"config": file}, {})


def test_flags_win_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[server]\nport = 1\ntls_port = 2\nhttp_port = 3\n")
    environment = {"PARTIBUS_CONFIG": str(file), "PARTIBUS_PORT": "11", "PARTIBUS_TLS_PORT": "12"}
    configuration = resolve_configuration({"port": 111}, environment)
    settings = configuration.settings
    assert (settings.port, settings.tls_port, settings.http_port) == (111, 12, 3)
    assert [configuration.origins[name] for name in ("port", "tls_port", "http_port")] == [
        "--port",
        "PARTIBUS_TLS_PORT",
        f"{file}:4",
    ]


def test_stores_are_directories_by_their_number() -> None:
    assert ServeSettings(data=Path("d"), stores=2).store_directories == (
        Path("d/store-0"),
        Path("d/store-1"),
    )
    named = ServeSettings(stores=2, store_places=("a", "/b"))
    assert named.store_directories == (Path("a"), Path("/b"))
    assert ServeSettings(memory=True, stores=2).store_directories == ()


def test_an_empty_variable_says_nothing() -> None:
    settings = resolve_configuration({}, {"PARTIBUS_PORT": "", "PARTIBUS_CONFIG": ""}).settings
    assert (settings.port, settings.config) == (5672, None)


def test_a_flag_may_switch_off_what_the_file_switched_on(tmp_path: Path) -> None:
    file = write(tmp_path, "[server]\nmemory = true\nstores = ['a', 'b']\n")
    flags: dict[str, object] = {"config": file, "memory": False, "tls_port": "none", "stores": 2}
    settings = resolve_configuration(flags, {}).settings
    assert (settings.memory, settings.tls_port) == (False, None)
    assert (settings.stores, settings.store_places) == (2, ())


def test_stores_by_place(tmp_path: Path) -> None:
    given = resolve_configuration({"stores": ("/d1", "/d2", "postgresql://h/db")}, {}).settings
    assert (given.stores, given.store_places) == (3, ("/d1", "/d2", "postgresql://h/db"))
    named = resolve_configuration({}, {"PARTIBUS_STORES": "/d1, /d2"}).settings
    assert named.store_places == ("/d1", "/d2")
    file = write(tmp_path, '[server]\nstores = ["d1", "/d2", "postgresql://h/db"]\n')
    filed = resolve_configuration({"config": file}, {}).settings
    assert filed.store_places == (str(tmp_path / "d1"), "/d2", "postgresql://h/db")


def test_the_files_entities_come_along(tmp_path: Path) -> None:
    file = write(tmp_path, '[[queue]]\nname = "q"\n')
    definitions = resolve_configuration({"config": file}, {}).definitions
    assert definitions is not None
    assert [entity.path for entity in definitions.entities] == ["q"]


@pytest.mark.rule("EMU-9")
def test_the_emulators_file_is_taken_as_it_is(tmp_path: Path) -> None:
    text = '{"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [{"Name": "q"}]}]}}'
    configuration: Configuration = resolve_configuration(
        {"config": write(tmp_path, text, "Config.json")}, {}
    )
    assert configuration.definitions is not None
    assert configuration.settings.profile is SELFHOST


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("prot = 1", ":2: server.prot: unknown key; did you mean 'port'?"),
        ('config = "x"', ":2: server.config: unknown key; "),
        ("port = 65536", ":2: server.port: '65536' is not a valid port; 0 to 65535 are allowed"),
        ("port = true", ":2: server.port: 'True' is not a valid port"),
        ("memory = 1", ":2: server.memory: expected true or false"),
        ("faults = 'maybe'", ":2: server.faults: expected true or false, got 'maybe'"),
        ("data = 1", ":2: server.data: expected a directory."),
        ('data = ""', ":2: server.data: expected a directory."),
        ('host = ""', ":2: server.host: expected an address to listen on"),
        ("stores = 0", ":2: server.stores: '0' is not allowed; allowed: 1 to "),
        ("stores = []", ":2: server.stores: expected a number or a list of places."),
        ("stores = [1]", ":2: server.stores: expected a number or a list of places."),
        ('stores = ["a", "a"]', ":2: server.stores: a place is named twice"),
        ("workers = -1", ":2: server.workers: '-1' is not allowed; allowed: 1 to "),
        ('profile = "gold"', ":2: server.profile: 'gold' is not a valid profile; allowed: basic, "),
    ],
)
def test_the_file_is_told_its_mistakes(tmp_path: Path, line: str, expected: str) -> None:
    file = write(tmp_path, f"[server]\n{line}\n")
    assert complaint({"config": file}, {}).startswith(f"{file}{expected}")


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ({"port": "x"}, {}, "--port: 'x' is not a valid port"),
        ({"tls_port": -1}, {}, "--tls-port: '-1' is not a valid port"),
        (
            {},
            {"PARTIBUS_HTTP_PORT": "99999999999"},
            "PARTIBUS_HTTP_PORT: '99999999999' is not a valid port",
        ),
        ({}, {"PARTIBUS_MEMORY": "perhaps"}, "PARTIBUS_MEMORY: expected true or false"),
        ({"profile": "gold"}, {}, "--profile: 'gold' is not a valid profile"),
        ({"port": 5671}, {}, "port and tls_port are both 5671"),
        ({"config": "/nowhere/bus.toml"}, {}, "/nowhere/bus.toml cannot be read"),
    ],
)
def test_flags_and_variables_are_told_their_mistakes(
    flags: dict[str, object], environment: dict[str, str], expected: str
) -> None:
    assert complaint(flags, environment).startswith(expected)


def test_ports_that_are_picked_or_off_never_clash() -> None:
    for port in (0, "none"):
        resolve_configuration({"port": port, "tls_port": port, "http_port": port}, {})


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.1", False),
        ("bus.example.com", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback_is_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    assert ServeSettings(host=host).loopback_only is expected


def test_every_setting_is_documented() -> None:
    import partibus.server.config as config

    assert config.__doc__ is not None
    for key in READERS:
        assert f"| {key} | PARTIBUS_{key.upper()} |" in config.__doc__


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("10%", FreeMin(0.1, 0)),
        ("2.5%", FreeMin(0.025, 0)),
        ("0", FreeMin(0.0, 0)),
        (1_000_000, FreeMin(0.0, 1_000_000)),
        ("1GiB", FreeMin(0.0, 1 << 30)),
        ("1.5 gb", FreeMin(0.0, 3 << 29)),
    ],
)
def test_what_stays_free_is_a_share_or_a_size(given: object, expected: FreeMin) -> None:
    assert resolve_configuration({"disk_free_min": given}, {}).settings.disk_free_min == expected


@pytest.mark.parametrize("given", ["much", "95%", "-1", "5 %%", ""])
def test_what_stays_free_can_be_wrong(given: str) -> None:
    assert "--disk-free-min" in complaint({"disk_free_min": given}, {})
