"""The settings of `serve`: defaults < [server] and [tls] of the file < PARTIBUS_* < flags.

Owns what can be set, what each setting may hold and where its value came from. It opens no
directory and no port, and decides nothing that needs one. Every wrong value is a
`ConfigError` that names its origin. Called by the CLI's `serve` and by the test kit. The limits
of the profile may be set in the table [limits] of the file (`control.declared.limits_config`).

| key, --flag | variable | holds | default |
|---|---|---|---|
| data | PARTIBUS_DATA | directory (in the file: relative to it) | ./partibus-data |
| memory | PARTIBUS_MEMORY | true or false | false |
| config (no key in the file) | PARTIBUS_CONFIG | file, TOML or the emulator's JSON | none |
| host | PARTIBUS_HOST | address to listen on, or * for all | 127.0.0.1 |
| port | PARTIBUS_PORT | 0 to 65535, 0 picks one, or none | 5672 |
| tls_port | PARTIBUS_TLS_PORT | the same | 5671 |
| http_port | PARTIBUS_HTTP_PORT | the same | 5300 |
| tls_cert | PARTIBUS_TLS_CERT | PEM file with its chain (in the file: cert of [tls]) | made |
| tls_key | PARTIBUS_TLS_KEY | PEM file (in the file: key of [tls]) | made |
| stores | PARTIBUS_STORES | a number, or places (variable: separated by commas) | 1 |
| workers | PARTIBUS_WORKERS | a number | 1 |
| cluster | PARTIBUS_CLUSTER | address of the cluster's database | none |
| cluster_tls | PARTIBUS_CLUSTER_TLS | directory with the node's certificates | ./partibus-cluster |
| lanes | PARTIBUS_LANES | lanes of a new cluster | 16 a database |
| peer_host | PARTIBUS_PEER_HOST | address of this node for the other nodes | host |
| peer_port | PARTIBUS_PEER_PORT | port for the other nodes, 0 picks one | 0 |
| worker_timeout_s | PARTIBUS_WORKER_TIMEOUT_S | seconds until a hanging one is replaced | 5 |
| keep_locks | PARTIBUS_KEEP_LOCKS | true or false: do locks survive a clean stop? | true |
| profile | PARTIBUS_PROFILE | name of a profile | selfhost |
| flight_port | PARTIBUS_FLIGHT_PORT | as port; the bulk path; worker n takes port + n | 0 |
| disk_free_min | PARTIBUS_DISK_FREE_MIN | what stays free of a disk: 5% or 200M | 5%, 64M |
| encryption_key_file | PARTIBUS_ENCRYPTION_KEY_FILE | file with the key of the data | none |
| encryption_key_command | PARTIBUS_ENCRYPTION_KEY_COMMAND | command that prints the key | none |
| log_level | PARTIBUS_LOG_LEVEL | debug, info, warning or error | info |
| log_format | PARTIBUS_LOG_FORMAT | text or json | text |
| audit_log | PARTIBUS_AUDIT_LOG | file for what administrators change | in the log |
| metrics | PARTIBUS_METRICS | who reads /metrics: loopback, token, open, off | loopback |
| otel | PARTIBUS_OTEL | true or false: export traces and metrics by OTLP? | false |
| console | PARTIBUS_CONSOLE | on, read-only or off | on |
| faults | PARTIBUS_FAULTS | true or false: may faults be asked for? | false |
| memory_limit | PARTIBUS_MEMORY_LIMIT | bytes, or with a unit: 64M, 2G | 512M, or a quarter |
| peek_partitioned | PARTIBUS_PEEK_PARTITIONED | merged or first-responder | merged |
| forward_failures_to_transfer | PARTIBUS_FORWARD_FAILURES_TO_TRANSFER | true or false | false |
| emulator | PARTIBUS_EMULATOR | true or false: stand in for the vendor's emulator? | false |
| fake_time | PARTIBUS_FAKE_TIME | true or false: may the clock be advanced? | false |
| testing | PARTIBUS_TESTING | true or false: is it for test suites? | false |

In emulator mode (`server.emulator`) and for test suites (`server.testing`) some of these have
another default.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from partibus.control.declared.definitions import Definitions, load_definitions
from partibus.control.declared.emulator_defaults import default_definitions
from partibus.control.declared.fields import refuse_unknown
from partibus.control.declared.limits_config import with_limits
from partibus.control.jwt_tokens import JwtSettings
from partibus.domain.errors import ArgumentError, ConfigError
from partibus.domain.limits import SELFHOST, Profile, profile_named
from partibus.domain.quantities import size_bytes
from partibus.ops.logging import LOG_FORMATS, LOG_LEVELS, TEXT
from partibus.ops.metrics_access import ACCESS, LOOPBACK
from partibus.server import emulator
from partibus.server.nodes import settings as clustering
from partibus.server.telemetry import environment as telemetry
from partibus.server.testing import reset as testing
from partibus.store.postgres.address import SCHEMES, is_database, lane_name
from partibus.store.room import FREE_MIN, FreeMin

ENVIRONMENT_PREFIX: Final = "PARTIBUS_"
_PORT_MAX: Final = 65_535
# More stores or workers than this are a slip of the finger, not a machine.
_STORES_MAX: Final = 1_024
_WORKERS_MAX: Final = 1_024
_WORKER_TIMEOUT_S_MAX: Final = 3_600
# Less would not hold a few messages of 1 MB on their way.
_MEMORY_BYTES_MIN: Final = 16 << 20
MERGED: Final = "merged"
PEEK_MODES: Final = (MERGED, "first-responder")
"""How a partitioned entity is peeked (CON-6)."""
CONSOLE_MODES: Final = ("on", "read-only", "off")
_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%", re.ASCII)
_FREE_PERCENT_MAX: Final = 90
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


@dataclass(slots=True, frozen=True, kw_only=True)
class ServeSettings:
    """What `serve` was asked to do; a port of None is switched off, of 0 picks a free one."""

    data: Path = Path("partibus-data")
    memory: bool = False
    config: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = 5672
    tls_port: int | None = 5671
    http_port: int | None = 5300
    tls_cert: Path | None = None  # None: the development CA's
    tls_key: Path | None = None
    stores: int = 1
    store_places: tuple[str, ...] = ()  # empty: `stores` directories below `data`
    workers: int = 1
    cluster: str | None = None  # None: this server is alone
    cluster_tls: Path = Path("partibus-cluster")
    lanes: int = 0  # 0: 16 for each database
    peer_host: str = ""  # "": as `host`
    peer_port: int = 0
    worker_timeout_s: int = 5
    """A worker that does not answer for this long is killed and restarted; 0: never."""
    keep_locks: bool = True
    """Locks of messages survive a clean stop; otherwise the messages are redelivered at once."""
    profile: Profile = SELFHOST
    flight_port: int = 0
    memory_limit: int | None = None  # None: 512 MiB, or a quarter of what the process may use
    disk_free_min: FreeMin = FREE_MIN
    """Below this no messages are taken, so that there is room to receive and settle."""
    encryption_key_file: Path | None = None
    encryption_key_command: str | None = None
    """Where the key of the data comes from; neither: it is not encrypted."""
    metrics: str = LOOPBACK
    otel: bool = False  # traces and metrics are exported, as the OTEL_* variables say
    log_level: str = "info"
    log_format: str = TEXT
    audit_log: Path | None = None
    console: str = "on"
    """Whether the web console is served, and whether it may change anything."""
    faults: bool = False
    peek_partitioned: str = MERGED
    jwt: JwtSettings | None = None  # [jwt] of the file
    forward_failures_to_transfer: bool = False
    """What cannot be forwarded ends in the source's transfer dead-letter queue (TDQ-3)."""
    emulator: bool = False
    """Tools that start the vendor's emulator find what they expect of it."""
    fake_time: bool = False
    """The clock can be advanced with the Manage right; for tests, in memory only."""
    testing: bool = False
    """A server for test suites: namespaces per test and a reset, beside faults and fake time."""

    @property
    def store_directories(self) -> tuple[Path, ...]:
        """Where the stores are, by number; none when everything is in memory."""
        if self.memory:
            return ()
        if self.store_places:
            return tuple(
                self.data / f"store-{number}" if is_database(place) else Path(place)
                for number, place in enumerate(self.store_places)
            )
        return tuple(self.data / f"store-{number}" for number in range(self.stores))

    @property
    def store_databases(self) -> dict[int, str]:
        """The addresses of the stores that are in a database and have no directory, by number."""
        places = () if self.memory else enumerate(self.store_places)
        return {number: place for number, place in places if is_database(place)}

    def store_name(self, number: int) -> str:
        """Where a store is, for a person: its directory, or its lane in a database."""
        if self.memory:
            return "memory"
        if number in self.store_databases:
            return lane_name(self.store_databases[number], number)
        return str(self.store_directories[number])

    @property
    def loopback_only(self) -> bool:
        """Whether the server can be reached from this machine only."""
        return is_loopback(self.host)


@dataclass(slots=True, frozen=True)
class Configuration:
    """Settings, what the file declares, and for each setting the place it came from."""

    settings: ServeSettings
    definitions: Definitions | None
    origins: Mapping[str, str]


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # another name may stand for any address


def resolve_configuration(
    flags: Mapping[str, object], environment: Mapping[str, str]
) -> Configuration:
    """Settle every setting. A flag of None, or an empty tuple, was not given."""
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    definitions = None
    config = _config_file(given, environment, values, origins)
    if config is not None:
        definitions = load_definitions(config)
        if definitions.jwt is not None:
            values["jwt"], origins["jwt"] = definitions.jwt, f"{config}: [jwt]"
        _take_file(definitions, values, origins)
    for key in _READERS:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if environment.get(variable):
            _take(key, environment[variable], variable, values, origins)
    for key, value in given.items():
        if key != "config":
            _take(key, value, f"--{key.replace('_', '-')}", values, origins)
    if values.get("emulator"):
        _take_emulator(environment, values, origins)
        if not values.get("testing"):  # whose namespaces begin empty
            definitions = definitions or default_definitions()
    if values.get("testing"):
        for key in testing.IMPLIED:
            if key not in values:
                _take(key, True, "--testing", values, origins)
    settings = _make(values)
    if definitions is not None and definitions.limits:
        limited = with_limits(settings.profile, definitions.source, definitions.limits)
        settings = replace(settings, profile=limited)
    _check_ports(settings)
    _check_tls(settings)
    testing.check(settings)
    telemetry.check(settings.otel, environment)
    settings = clustering.settle(settings)
    for name in ServeSettings.__dataclass_fields__:
        origins.setdefault(name, "default")
    return Configuration(settings, definitions, origins)


def _config_file(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    values: dict[str, object],
    origins: dict[str, str],
) -> Path | None:
    if "config" in flags:
        values["config"], origins["config"] = Path(str(flags["config"])), "--config"
    elif environment.get("PARTIBUS_CONFIG"):
        values["config"] = Path(environment["PARTIBUS_CONFIG"])
        origins["config"] = "PARTIBUS_CONFIG"
    elif _wants_emulator(flags, environment) and (found := emulator.config_file()) is not None:
        values["config"], origins["config"] = found, "--emulator"
    config = values.get("config")
    return config if isinstance(config, Path) else None


def _wants_emulator(flags: Mapping[str, object], environment: Mapping[str, str]) -> bool:
    """Whether emulator mode is asked for from outside of any file."""
    values: dict[str, object] = {}
    if environment.get("PARTIBUS_EMULATOR"):
        _take("emulator", environment["PARTIBUS_EMULATOR"], "PARTIBUS_EMULATOR", values, {})
    if "emulator" in flags:
        _take("emulator", flags["emulator"], "--emulator", values, {})
    return bool(values.get("emulator"))


def _take_emulator(
    environment: Mapping[str, str], values: dict[str, object], origins: dict[str, str]
) -> None:
    for key, (value, origin) in emulator.default_settings(environment).items():
        if key not in values:
            _take(key, value, origin, values, origins)


def _take_file(
    definitions: Definitions, values: dict[str, object], origins: dict[str, str]
) -> None:
    source = definitions.source
    tables = (("server", definitions.server, _IN_SERVER), ("tls", definitions.tls, _IN_TLS))
    for name, table, known in tables:
        refuse_unknown(source, (name,), table, known)
        for key, value in table.items():
            where = (name, key)
            try:
                read = _READERS[known[key]](value)
            except ArgumentError as error:
                raise source.error(where, error.text) from error
            values.update(_anchored(read, source.file.parent))
            origins.update(dict.fromkeys(read, f"{source.file}:{source.line_of(where)}"))


def _anchored(read: dict[str, object], folder: Path) -> dict[str, object]:
    """Paths of a file hang on its place, since it can be used from anywhere."""
    places = read.get("store_places")
    if isinstance(places, tuple):
        anchored = tuple(p if "://" in p else str(folder / p) for p in places)
        return {**read, "store_places": anchored}
    return {key: folder / v if isinstance(v, Path) else v for key, v in read.items()}


def _take(
    key: str, value: object, origin: str, values: dict[str, object], origins: dict[str, str]
) -> None:
    reader = _READERS.get(key)
    assert reader is not None, f"no such setting: {key}"
    try:
        read = reader(value)
    except ArgumentError as error:
        raise ConfigError(f"{origin}: {error.text}") from error
    values.update(read)
    origins.update(dict.fromkeys(read, origin))


def _make(values: Mapping[str, object]) -> ServeSettings:
    return ServeSettings(**values)  # type: ignore[arg-type]  # each was read by its reader


def _check_ports(settings: ServeSettings) -> None:
    taken: dict[int, str] = {}
    for name in ("port", "tls_port", "http_port"):
        port: int | None = getattr(settings, name)
        if port and taken.setdefault(port, name) != name:
            raise ConfigError(
                f"{taken[port]} and {name} are both {port}; give each its own, or disable one "
                "with 'none'."
            )


def _check_tls(settings: ServeSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        given, missing = ("tls_cert", "tls_key")
        if settings.tls_cert is None:
            given, missing = missing, given
        raise ConfigError(f"{given} was given without {missing}; a certificate needs its key.")


# --- readers: from the value of any origin to settings ----------------------------------------

Reader = Callable[[object], dict[str, object]]


def _read_path(value: object, name: str, what: str) -> dict[str, object]:
    if not isinstance(value, str | Path) or not str(value):
        raise ArgumentError(f"expected a {what}.")
    return {name: Path(value)}


def _read_switch(value: object, name: str) -> dict[str, object]:
    word = str(value).lower()
    if not isinstance(value, bool | str) or word not in _TRUE + _FALSE:
        raise ArgumentError(f"expected true or false, got '{value}'.")
    return {name: word in _TRUE}


def _read_command(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("expected a command with its arguments.")
    return {name: value.strip()}


def _read_host(value: object) -> dict[str, object]:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("expected an address to listen on, for example 127.0.0.1.")
    return {"host": value.strip()}


def _read_port(value: object, name: str) -> dict[str, object]:
    if isinstance(value, str) and value.lower() == "none":
        return {name: None}
    port = _whole(value)
    if port is None or not 0 <= port <= _PORT_MAX:
        raise ArgumentError(
            f"'{value}' is not a valid port; 0 to {_PORT_MAX} are allowed, 0 picks a free port, "
            "none disables it."
        )
    return {name: port}


def _read_count(value: object, name: str, most: int, least: int = 1) -> dict[str, object]:
    count = _whole(value)
    if count is None or not least <= count <= most:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {least} to {most}.")
    return {name: count}


def _read_stores(value: object) -> dict[str, object]:
    """A number of directories below the data directory, or the places themselves."""
    if isinstance(value, str) and _whole(value) is None:
        value = [place.strip() for place in value.split(",")]
    if not isinstance(value, list | tuple):
        return {**_read_count(value, "stores", _STORES_MAX), "store_places": ()}
    places = tuple(str(place) for place in value)
    if not places or not all(places) or not all(isinstance(p, str | Path) for p in value):
        raise ArgumentError("expected a number or a list of places.")
    directories = [place for place in places if not is_database(place)]
    unknown = next((place for place in directories if "://" in place), None)
    if unknown is not None:
        raise ArgumentError(
            f"'{unknown}' is not a place for a store; allowed: a directory and an address that "
            f"begins with {SCHEMES[0]}."
        )
    if len(set(directories)) != len(directories):
        raise ArgumentError("a place is named twice; each store needs its own.")
    return {"stores": len(places), "store_places": places}


def _read_memory_limit(value: object) -> dict[str, object]:
    size = size_bytes(str(value))
    if size < _MEMORY_BYTES_MIN:
        raise ArgumentError(f"'{value}' is too small; {_MEMORY_BYTES_MIN >> 20}M is the least.")
    return {"memory_limit": size}


def _read_profile(value: object) -> dict[str, object]:
    return {"profile": profile_named(str(value))}


def _read_word(value: object, name: str, allowed: tuple[str, ...]) -> dict[str, object]:
    if value not in allowed:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {' and '.join(allowed)}.")
    return {name: value}


def _read_console(value: object) -> dict[str, object]:
    # TOML and YAML have words of their own for on and off.
    word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if word not in CONSOLE_MODES:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {', '.join(CONSOLE_MODES)}.")
    return {"console": word}


def _read_free_min(value: object) -> dict[str, object]:
    """A share of the disk, or a size; either stands alone."""
    text = str(value).strip()
    share = _SHARE.fullmatch(text)
    if share is not None:
        if float(share[1]) > _FREE_PERCENT_MAX:
            raise ArgumentError(f"'{value}' is not allowed; allowed: 0% to 90%.")
        return {"disk_free_min": FreeMin(float(share[1]) / 100, 0)}
    try:
        return {"disk_free_min": FreeMin(0.0, size_bytes(str(value)))}
    except ArgumentError:
        raise ArgumentError(
            f"'{value}' is not a valid share or size; for example: 5%, 200M, or 0 for none."
        ) from None


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) if len(value) < 10 else None
    return None


_READERS: Final[dict[str, Reader]] = {
    "data": lambda value: _read_path(value, "data", "directory"),
    "memory": lambda value: _read_switch(value, "memory"),
    "host": _read_host,
    "port": lambda value: _read_port(value, "port"),
    "tls_port": lambda value: _read_port(value, "tls_port"),
    "http_port": lambda value: _read_port(value, "http_port"),
    "tls_cert": lambda value: _read_path(value, "tls_cert", "PEM file"),
    "tls_key": lambda value: _read_path(value, "tls_key", "PEM file"),
    "flight_port": lambda value: _read_count(value, "flight_port", _PORT_MAX, least=0),
    "stores": _read_stores,
    "workers": lambda value: _read_count(value, "workers", _WORKERS_MAX),
    "cluster": lambda value: {"cluster": clustering.database(value)},
    "cluster_tls": lambda value: _read_path(value, "cluster_tls", "directory"),
    "lanes": lambda value: _read_count(value, "lanes", _STORES_MAX),
    "peer_host": lambda value: {"peer_host": _read_host(value)["host"]},
    "peer_port": lambda value: _read_count(value, "peer_port", _PORT_MAX, least=0),
    "worker_timeout_s": lambda value: _read_count(
        value, "worker_timeout_s", _WORKER_TIMEOUT_S_MAX, least=0
    ),
    "keep_locks": lambda value: _read_switch(value, "keep_locks"),
    "profile": _read_profile,
    "memory_limit": _read_memory_limit,
    "disk_free_min": _read_free_min,
    "encryption_key_file": lambda value: _read_path(value, "encryption_key_file", "file"),
    "encryption_key_command": lambda value: _read_command(value, "encryption_key_command"),
    "console": _read_console,
    "faults": lambda value: _read_switch(value, "faults"),
    "peek_partitioned": lambda value: _read_word(value, "peek_partitioned", PEEK_MODES),
    "log_level": lambda value: _read_word(value, "log_level", LOG_LEVELS),
    "log_format": lambda value: _read_word(value, "log_format", LOG_FORMATS),
    "audit_log": lambda value: _read_path(value, "audit_log", "file"),
    "metrics": lambda value: _read_word(value, "metrics", ACCESS),
    "otel": lambda value: _read_switch(value, "otel"),
    "forward_failures_to_transfer": lambda value: _read_switch(
        value, "forward_failures_to_transfer"
    ),
    "emulator": lambda value: _read_switch(value, "emulator"),
    "fake_time": lambda value: _read_switch(value, "fake_time"),
    "testing": lambda value: _read_switch(value, "testing"),
}
SETTING_KEYS: Final = tuple(_READERS)
# Tables of the file: the name of each setting there, and its own.
_IN_TLS: Final = {"cert": "tls_cert", "key": "tls_key"}
_IN_SERVER: Final = {key: key for key in SETTING_KEYS if key not in _IN_TLS.values()}
