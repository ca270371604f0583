"""Which values each setting of `serve` may have: from a value of any origin to the setting.

Owns the reader of every key and the words that it accepts. A value may come from the file, from a
variable or from a flag, so a number may be a string; a wrong one is an `ArgumentError`, to which
`config` adds its origin. A new setting is a field of `ServeSettings` and a row of READERS.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.errors import ArgumentError
from partibus.domain.limits import Profile, profile_named
from partibus.domain.quantities import size_bytes
from partibus.ops.logging import LOG_FORMATS, LOG_LEVELS
from partibus.ops.metrics_access import ACCESS
from partibus.server.nodes import settings as clustering
from partibus.store.files.room import FreeMin
from partibus.store.postgres.address import SCHEMES, is_database

_PORT_MAX: Final = 65_535
# More stores or workers than this are a typing error.
_STORES_MAX: Final = 1_024
_WORKERS_MAX: Final = 1_024
_WORKER_TIMEOUT_S_MAX: Final = 3_600
# Less would not hold a few messages of 1 MB in transit.
_MEMORY_BYTES_MIN: Final = 16 << 20
MERGED: Final = "merged"
PEEK_MODES: Final = (MERGED, "first-responder")
"""How a partitioned entity is peeked (CON-6)."""
CONSOLE_MODES: Final = ("on", "read-only", "off")
_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%", re.ASCII)
_FREE_PERCENT_MAX: Final = 90
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


def read_setting(key: str, value: object) -> dict[str, object]:
    """The settings that a key sets: its own, and with `stores` also their places."""
    if key == "stores":
        count, places = _stores(value)
        return {"stores": count, "store_places": places}
    return {key: READERS[key](value)}


def _path(value: object, what: str = "file") -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ArgumentError(f"expected a {what}.")
    return Path(value)


def _switch(value: object) -> bool:
    word = str(value).lower()
    if not isinstance(value, bool | str) or word not in _TRUE + _FALSE:
        raise ArgumentError(f"expected true or false, got '{value}'.")
    return word in _TRUE


def _command(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("expected a command with its arguments.")
    return value.strip()


def _host(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("expected an address to listen on, for example 127.0.0.1.")
    return value.strip()


def _port(value: object) -> int | None:
    if isinstance(value, str) and value.lower() == "none":
        return None
    port = _whole(value)
    if port is None or not 0 <= port <= _PORT_MAX:
        raise ArgumentError(
            f"'{value}' is not a valid port; 0 to {_PORT_MAX} are allowed, 0 picks a free port, "
            "none disables it."
        )
    return port


def _count(value: object, most: int, least: int = 1) -> int:
    count = _whole(value)
    if count is None or not least <= count <= most:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {least} to {most}.")
    return count


def _stores(value: object) -> tuple[int, tuple[str, ...]]:
    """A number of directories below the data directory, or the places themselves."""
    if isinstance(value, str) and _whole(value) is None:
        value = [place.strip() for place in value.split(",")]
    if not isinstance(value, list | tuple):
        return _count(value, _STORES_MAX), ()
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
    return len(places), places


def _memory_limit(value: object) -> int:
    size = size_bytes(str(value))
    if size < _MEMORY_BYTES_MIN:
        raise ArgumentError(f"'{value}' is too small; the minimum is {_MEMORY_BYTES_MIN >> 20}M.")
    return size


def _profile(value: object) -> Profile:
    return profile_named(str(value))


def _word(value: object, allowed: tuple[str, ...]) -> object:
    if value not in allowed:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {' and '.join(allowed)}.")
    return value


def _console(value: object) -> object:
    # TOML and YAML have their own words for on and off.
    word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
    if word not in CONSOLE_MODES:
        raise ArgumentError(f"'{value}' is not allowed; allowed: {', '.join(CONSOLE_MODES)}.")
    return word


def _free_min(value: object) -> FreeMin:
    """A share of the disk, or a size; one of the two."""
    text = str(value).strip()
    share = _SHARE.fullmatch(text)
    if share is not None:
        if float(share[1]) > _FREE_PERCENT_MAX:
            raise ArgumentError(f"'{value}' is not allowed; allowed: 0% to 90%.")
        return FreeMin(float(share[1]) / 100, 0)
    try:
        return FreeMin(0.0, size_bytes(str(value)))
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


READERS: Final[dict[str, Callable[[object], object]]] = {
    "data": partial(_path, what="directory"),
    "memory": _switch,
    "host": _host,
    "port": _port,
    "tls_port": _port,
    "http_port": _port,
    "tls_cert": partial(_path, what="PEM file"),
    "tls_key": partial(_path, what="PEM file"),
    "flight_port": partial(_count, most=_PORT_MAX, least=0),
    "stores": _stores,
    "workers": partial(_count, most=_WORKERS_MAX),
    "cluster": clustering.database,
    "cluster_tls": partial(_path, what="directory"),
    "lanes": partial(_count, most=_STORES_MAX),
    "peer_host": _host,
    "peer_port": partial(_count, most=_PORT_MAX, least=0),
    "worker_timeout_s": partial(_count, most=_WORKER_TIMEOUT_S_MAX, least=0),
    "keep_locks": _switch,
    "profile": _profile,
    "memory_limit": _memory_limit,
    "disk_free_min": _free_min,
    "encryption_key_file": _path,
    "encryption_key_command": _command,
    "console": _console,
    "faults": _switch,
    "peek_partitioned": partial(_word, allowed=PEEK_MODES),
    "log_level": partial(_word, allowed=LOG_LEVELS),
    "log_format": partial(_word, allowed=LOG_FORMATS),
    "audit_log": _path,
    "metrics": partial(_word, allowed=ACCESS),
    "otel": _switch,
    "forward_failures_to_transfer": _switch,
    "emulator": _switch,
    "fake_time": _switch,
    "testing": _switch,
}
