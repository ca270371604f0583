"""The standard variables of OpenTelemetry, as far as its SDK does not read them.

Owns which signals are exported and how often. Everything else (endpoint, headers, certificates,
time-outs, sampler, sizes of queues, resource) is read by the SDK itself. Imports nothing of the
SDK, so that a missing package is reported before any store is opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from partibus.domain.errors import ConfigError

_OTLP: Final = "otlp"
_NONE: Final = "none"
_PROTOCOL: Final = "http/protobuf"
INTERVAL_MS: Final = 60_000
"""The default of the specification."""
_INTERVAL_MS_MIN: Final = 100


@dataclass(slots=True, frozen=True)
class Exports:
    """What is exported."""

    traces: bool
    metrics: bool
    metrics_interval_ms: int


def check(is_wanted: bool, environment: Mapping[str, str]) -> None:
    """Refuse to start if the requested export is not possible."""
    if is_wanted:
        require_packages()
        exports_of(environment)


def require_packages() -> None:
    """Raise when the extra is not installed."""
    try:
        is_there = find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise ConfigError(
            "--otel needs the OpenTelemetry packages, which are not installed; install them with: "
            "pip install 'partibus[otel]'"
        )


def exports_of(environment: Mapping[str, str]) -> Exports:
    """Read the variables; a wrong value is an error that names its variable."""
    is_on = environment.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
    signals = {}
    for signal in ("TRACES", "METRICS"):
        signals[signal] = is_on and _exporter(environment, f"OTEL_{signal}_EXPORTER") == _OTLP
        for variable in (
            f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ):
            _require_protocol(environment, variable)
    return Exports(signals["TRACES"], signals["METRICS"], _interval_ms(environment))


def _exporter(environment: Mapping[str, str], variable: str) -> str:
    value = environment.get(variable, "").strip() or _OTLP
    if value not in (_OTLP, _NONE):
        raise ConfigError(f"{variable}: '{value}' is not supported; give otlp or none.")
    return value


def _require_protocol(environment: Mapping[str, str], variable: str) -> None:
    value = environment.get(variable, "").strip() or _PROTOCOL
    if value != _PROTOCOL:
        raise ConfigError(
            f"{variable}: '{value}' is not supported; give {_PROTOCOL}, on the collector's "
            "port 4318."
        )


def _interval_ms(environment: Mapping[str, str]) -> int:
    value = environment.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip() or str(INTERVAL_MS)
    if not (value.isascii() and value.isdigit() and int(value) >= _INTERVAL_MS_MIN):
        raise ConfigError(
            f"OTEL_METRIC_EXPORT_INTERVAL: '{value}' is not a valid time; give milliseconds, "
            f"at least {_INTERVAL_MS_MIN}."
        )
    return int(value)
