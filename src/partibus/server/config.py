"""The settings of `serve`: defaults < [server] and [tls] of the file < PARTIBUS_* < flags.

Owns what can be set and where each value came from; `setting_values` decides which values are
valid. It must never open a directory or a port. Every wrong value is a `ConfigError` that names its
origin. Called by the CLI's `serve` and by the test kit. The limits of the profile may be set in the
table [limits] of the file (`control.declared.limits_config`).

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
| faults | PARTIBUS_FAULTS | true or false: may faults be injected? | false |
| memory_limit | PARTIBUS_MEMORY_LIMIT | bytes, or with a unit: 64M, 2G | 512M, or a quarter |
| peek_partitioned | PARTIBUS_PEEK_PARTITIONED | merged or first-responder | merged |
| forward_failures_to_transfer | PARTIBUS_FORWARD_FAILURES_TO_TRANSFER | true or false | false |
| emulator | PARTIBUS_EMULATOR | true or false: stand in for the vendor's emulator? | false |
| fake_time | PARTIBUS_FAKE_TIME | true or false: may the clock be advanced? | false |
| testing | PARTIBUS_TESTING | true or false: is it for test suites? | false |

In emulator mode (`server.emulator`) and for test suites (`server.testing`) some of these have
another default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from partibus.control.access.jwt_tokens import JwtSettings
from partibus.control.declared.definitions import Definitions, load_definitions
from partibus.control.declared.emulator_defaults import default_definitions
from partibus.control.declared.fields import Section
from partibus.control.declared.limits_config import with_limits
from partibus.domain.errors import ArgumentError, ConfigError
from partibus.domain.limits import SELFHOST, Profile
from partibus.ops.logging import TEXT
from partibus.ops.metrics_access import LOOPBACK
from partibus.server import emulator
from partibus.server.nodes import settings as clustering
from partibus.server.setting_values import MERGED, READERS, read_setting
from partibus.server.telemetry import environment as telemetry
from partibus.server.testing import testing_mode as testing
from partibus.store.files.room import FREE_MIN, FreeMin
from partibus.store.postgres.address import is_database, lane_name

ENVIRONMENT_PREFIX: Final = "PARTIBUS_"
# Tables of the file: the name of each setting there, and its own.
_IN_TLS: Final = {"cert": "tls_cert", "key": "tls_key"}
_IN_SERVER: Final = {key: key for key in READERS if key not in _IN_TLS.values()}


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
    """Below this no messages are accepted, so that there is room to receive and settle."""
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
    """What cannot be forwarded goes to the source's transfer dead-letter queue (TDQ-3)."""
    emulator: bool = False
    """Behaves as expected by tools that start the vendor's emulator."""
    fake_time: bool = False
    """The clock can be advanced with the Manage right; for tests, in memory only."""
    testing: bool = False
    """A server for test suites: namespaces per test and a reset, besides faults and fake time."""

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
        """Where a store is, for people: its directory, or its lane in a database."""
        if self.memory:
            return "memory"
        if number in self.store_databases:
            return lane_name(self.store_databases[number], number)
        return str(self.store_directories[number])

    @property
    def loopback_only(self) -> bool:
        """Whether the server can be reached only from this machine."""
        return is_loopback(self.host)


@dataclass(slots=True, frozen=True)
class Configuration:
    """Settings, what the file declares, and for each setting the place it came from."""

    settings: ServeSettings
    definitions: Definitions | None
    origins: Mapping[str, str]


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached only from this machine."""
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
    """Resolve every setting. A flag of None, or an empty tuple, was not given."""
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
    for key in READERS:
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
    """Whether emulator mode is set outside of any file."""
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
        Section(source, (name,), table).refuse_unknown(known)
        for key, value in table.items():
            where = (name, key)
            try:
                read = read_setting(known[key], value)
            except ArgumentError as error:
                raise source.error(where, error.text) from error
            values.update(_anchored(read, source.file.parent))
            origins.update(dict.fromkeys(read, f"{source.file}:{source.line_of(where)}"))


def _anchored(read: dict[str, object], folder: Path) -> dict[str, object]:
    """Paths in a file are relative to it, since it can be used from anywhere."""
    places = read.get("store_places")
    if isinstance(places, tuple):
        anchored = tuple(p if "://" in p else str(folder / p) for p in places)
        return {**read, "store_places": anchored}
    return {key: folder / v if isinstance(v, Path) else v for key, v in read.items()}


def _take(
    key: str, value: object, origin: str, values: dict[str, object], origins: dict[str, str]
) -> None:
    try:
        read = read_setting(key, value)
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
