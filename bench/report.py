"""The results: medians with their spread, as a plain table and as a JSON file.

Owns the shape of both. A ratio is ours over theirs, of medians of one interleaved run, and
below 1 is better for everything but rates. Called by the command line.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import partibus
from bench.scenarios import CPU, OTHERS, P50, P99, RATE, RSS_EACH, RSS_MB, START, Numbers

_UNITS: Final = {
    CPU: "server CPU s per 1M",
    RATE: "messages/s",
    P50: "round trip us, p50",
    P99: "round trip us, p99",
    RSS_MB: "RSS MB",
    RSS_EACH: "RSS bytes per message",
    START: "seconds to ready",
}
# Above this many cores busy with something else, rates say little.
_OTHERS_CORES_MAX: Final = 0.25


class Results:
    """All numbers of a run: scenario, server, measure, and one value for each repeat."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[str, list[float]]]] = {}

    def add(self, scenario: str, peer: str, numbers: Numbers) -> None:
        kept = self._values.setdefault(scenario, {}).setdefault(peer, {})
        for name, value in numbers.items():
            kept.setdefault(name, []).append(value)

    def lines(self, peers: list[str]) -> Iterable[str]:
        """The table; with two servers, the ratio of the first to the second."""
        head = f"{'scenario':<38}{'measure':<23}" + "".join(f"{peer:>30}" for peer in peers)
        yield head + ("     ratio" if len(peers) == 2 else "")
        for scenario, by_peer in self._values.items():
            for measure in _UNITS:
                rows = [by_peer.get(peer, {}).get(measure, []) for peer in peers]
                if any(rows):
                    line = f"{scenario:<38}{_UNITS[measure]:<23}"
                    yield line + "".join(f"{_spread(row):>30}" for row in rows) + _ratio(rows)
        others = self._others()
        if others > _OTHERS_CORES_MAX:
            yield f"Other programs kept {others:.1f} cores busy: trust CPU seconds, not rates."

    def _others(self) -> float:
        values = [
            value
            for by_peer in self._values.values()
            for numbers in by_peer.values()
            for value in numbers.get(OTHERS, [])
        ]
        return median(values) if values else 0.0

    def as_json(self) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
        return {
            scenario: {
                peer: {measure: _summary(values) for measure, values in numbers.items()}
                for peer, numbers in by_peer.items()
            }
            for scenario, by_peer in self._values.items()
        }


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    middle = _number(median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({_number(min(values))}-{_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _ratio(rows: list[list[float]]) -> str:
    if len(rows) != 2 or not rows[0] or not rows[1] or not median(rows[1]):
        return ""
    return f"{median(rows[0]) / median(rows[1]):>10.2f}"


def _summary(values: list[float]) -> dict[str, float]:
    return {
        "median": round(median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str:
    """The commit of the code that was measured; a plus when its tree had changes."""
    measured = Path(partibus.__file__).parent
    words = ["git", "-C", str(measured), "describe", "--always", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run([*words, "--dirty=+"], capture_output=True, text=True, check=True)
        return found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write(path: Path, peers: dict[str, str], messages: int, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "servers": peers,
        "messages": messages,
        "results": results.as_json(),
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
