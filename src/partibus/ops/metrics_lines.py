"""The text format of Prometheus, line by line: labels and histograms.

Owns how labels are quoted and how a histogram is written. It must never know a metric: their names
and values are in `ops.metrics`.
"""

from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from partibus.domain.observing.histogram import BOUNDS_S

LABELS_KEPT: Final = 4_096
"""Labels as text, of a thousand entities and of everything else that is counted."""


def histogram_lines(name: str, pairs: str, found: dict[str, Any]) -> list[str]:
    """As Prometheus expects: each bound with the count of everything below it."""
    totals = list(accumulate(found["counts"]))
    lines = [f"{b} {n}" for b, n in zip(_buckets(name, pairs), totals, strict=True)]
    lines.append(f"{name}_sum{_braced(pairs)} {found['sum_s']}")
    lines.append(f"{name}_count{_braced(pairs)} {totals[-1]}")
    return lines


@lru_cache(LABELS_KEPT)
def _buckets(name: str, pairs: str) -> tuple[str, ...]:
    return tuple(f'{name}_bucket{{{pairs},le="{bound}"}}' for bound in (*BOUNDS_S, "+Inf"))


@lru_cache(LABELS_KEPT)
def labelled(labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    """What follows the name of a series."""
    return _braced(pairs_of(labels, values))


def pairs_of(labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels with their values."""
    return ",".join([f'{n}="{_escaped(v)}"' for n, v in zip(labels, values, strict=True)])


def _braced(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
