"""`python tools/performance_page.py`: the numbers of docs/performance.md, from `make bench`.

Prints the page with the numbers of bench/results/reference.json between its marks; with --write it
puts them there. A test compares the page with this output, so that no number is typed by hand.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "performance.md"
RUN: Final = ROOT / "bench" / "results" / "reference.json"
BEGIN, END = "<!-- numbers begin -->", "<!-- numbers end -->"

Row = tuple[str, ...]


def main() -> int:
    text = filled(PAGE.read_text(encoding="utf-8"), json.loads(RUN.read_text(encoding="utf-8")))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def filled(page: str, run: dict[str, Any]) -> str:
    """The page with the numbers of a run between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{_figures(run)}\n{END}{after}"


def _figures(run: dict[str, Any]) -> str:
    machine, servers = run["machine"], run["servers"]
    others = ", ".join(f"{name} ({kind})" for name, kind in servers.items())
    head = (
        f"{run['date'][:10]}, commit `{run['commit'].rstrip('+')}`: {machine['cores']} cores"
        f" ({machine['processor']}), {machine['system']}, Python {machine['python']};"
        f" {run['messages']:,} messages a load. {others}."
    )
    tables = [_table(_loads(run["results"])), _table(_rests(run["results"]))]
    return "\n\n".join([head, *tables])


def _loads(results: dict[str, Any]) -> Iterator[Row]:
    """The loads: processor time of the server, and what came through."""
    yield ("load", "server CPU s per 1M", "RabbitMQ", "messages a second", "RabbitMQ")
    for name, peers in results.items():
        ours, theirs = peers["partibus"], peers.get("rabbitmq", {})
        if "per_s" in ours:
            yield (
                name,
                _spread(ours["cpu_s_per_1m"]),
                _spread(theirs.get("cpu_s_per_1m")),
                _spread(ours["per_s"]),
                _spread(theirs.get("per_s")),
            )


def _rests(results: dict[str, Any]) -> Iterator[Row]:
    """Round trips, starts and memory."""
    units = {
        "round_trip_us_p50": "round trip p50, microseconds",
        "round_trip_us_p99": "round trip p99, microseconds",
        "start_s": "seconds to READY",
        "rss_bytes_per_message": "bytes of memory for each message",
        "rss_mb": "MB of memory",
    }
    yield ("case", "measure", "Partibus", "RabbitMQ")
    for name, peers in results.items():
        for key, unit in units.items():
            if key in peers["partibus"]:
                theirs = peers.get("rabbitmq", {})
                yield (name, unit, _spread(peers["partibus"][key]), _spread(theirs.get(key)))


def _spread(measured: dict[str, float] | None) -> str:
    """The median, with the lowest and the highest."""
    if measured is None:
        return "-"
    median, least, most = (_number(measured[key]) for key in ("median", "min", "max"))
    return median if least == most else f"{median} ({least} to {most})"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{round(value, -2):,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _table(rows: Iterator[Row]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
