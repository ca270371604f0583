"""`partibus top`: the server at a glance, refreshed continuously.

Owns the screen: the summary at its top, the order of entities, and how it is redrawn without
flicker. The numbers are those of `/metrics`.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson
from partibus.cli.quantities import format_bytes, span_ms

if TYPE_CHECKING:
    from partibus.cli.place import Place

ROWS_MAX: Final = 20
HOME: Final = "\x1b[H"
"""Where the cursor goes before each redraw; lines are overwritten, and the rest is cleared."""
_TO_LINE_END: Final = "\x1b[K"
_TO_SCREEN_END: Final = "\x1b[J"
_CLEAR: Final = "\x1b[2J"
_COLUMNS: Final = (
    ("entity", "name", 32),
    ("in/s", "incoming_per_s", 9),
    ("out/s", "outgoing_per_s", 9),
    ("active", "active", 9),
    ("locked", "locked", 8),
    ("dead", "dead_letter", 8),
    ("scheduled", "scheduled", 10),
    ("size", "size", 9),
)


@on_server
def top(
    place: "Place",
    interval: Annotated[
        int,
        typer.Option(metavar="DURATION", parser=span_ms, help="How often the screen is refreshed."),
    ] = "2s",  # type: ignore[assignment]  # the parser makes milliseconds of it
    once: Annotated[bool, typer.Option("--once", help="Draw it once, and exit.")] = False,
    json: AsJson = False,
) -> None:
    """Show rates, depths, stores and workers live in the terminal; Ctrl-C ends it.

    The busiest entities come first. The first screen appears after one interval, since a rate
    needs two readings. `--json` prints an object per interval, `--once --json` a single one.

    Example:

        partibus top --once
    """
    server = server_at(place)
    is_drawn = sys.stdout.isatty() and not json and not once
    before, then_s = server.ask("GET", "/signals"), time.monotonic()
    if is_drawn:
        sys.stdout.write(_CLEAR)
    while True:
        time.sleep(interval / 1000)
        after, now_s = server.ask("GET", "/signals"), time.monotonic()
        seen = picture(before, after, now_s - then_s)
        if json:
            print_json(seen)
        else:
            _draw(lines_of(seen), is_drawn)
        if once:
            return
        before, then_s = after, now_s


def picture(before: dict[str, Any], after: dict[str, Any], passed_s: float) -> dict[str, Any]:
    """The content of the screen, from two readings."""
    earlier = {entity["name"]: entity["counts"] for entity in before["entities"]}
    entities = [_entity(e, earlier.get(e["name"]), passed_s) for e in after["entities"]]
    entities.sort(key=lambda e: (-e["incoming_per_s"] - e["outgoing_per_s"], -e["active"]))
    workers = after["workers"]
    answering = [answer for answer in workers.values() if answer is not None]
    stores = [store for answer in answering for store in answer["stores"].values()]
    queues = [e for e in entities if e["kind"] != "subscription"]
    return {
        "workers": len(workers),
        "workers_up": len(answering),
        "stores": len(stores),
        "stores_up": sum(store["state"] != "down" for store in stores),
        "connections": sum(sum(a["gateway"]["connections"].values()) for a in answering),
        "links": sum(answer["gateway"]["links"] for answer in answering),
        "incoming_per_s": round(sum(e["incoming_per_s"] for e in queues), 1),
        "outgoing_per_s": round(sum(e["outgoing_per_s"] for e in entities), 1),
        "errors": sum(count for answer in answering for *_, count in answer["errors"]),
        "entities": entities,
    }


def _entity(
    entity: dict[str, Any], earlier: dict[str, int] | None, passed_s: float
) -> dict[str, Any]:
    counts = entity["counts"]

    def rate(name: str) -> float:
        if earlier is None or passed_s <= 0:
            return 0.0
        # A restarted worker counts from zero.
        return round(float(max(0, counts[name] - earlier[name])) / passed_s, 1)

    return {
        "name": entity["name"],
        "kind": entity["kind"],
        "incoming_per_s": rate("incoming"),
        "outgoing_per_s": rate("outgoing"),
        **{name: counts[name] for name in ("active", "locked", "dead_letter", "scheduled")},
        "size": counts["bytes"],
    }


def lines_of(seen: dict[str, Any]) -> list[str]:
    """The picture as text."""
    head = (
        f"workers {seen['workers_up']}/{seen['workers']}  stores {seen['stores_up']}/"
        f"{seen['stores']}  connections {seen['connections']}  links {seen['links']}  "
        f"in {seen['incoming_per_s']}/s  out {seen['outgoing_per_s']}/s  errors {seen['errors']}"
    )
    shown = seen["entities"][:ROWS_MAX]
    rows = [_cells([title for title, _, _ in _COLUMNS]), *(_row(entity) for entity in shown)]
    left = len(seen["entities"]) - len(shown)
    return [head, "", *rows, *([f"and {left} more"] if left else [])]


def _row(entity: dict[str, Any]) -> str:
    shown = {**entity, "size": format_bytes(entity["size"])}
    return _cells([str(shown[key]) for _, key, _ in _COLUMNS])


def _cells(texts: list[str]) -> str:
    first, *rest = [(text, width) for text, (_, _, width) in zip(texts, _COLUMNS, strict=True)]
    return first[0][: first[1]].ljust(first[1]) + "".join(t.rjust(w) for t, w in rest)


def _draw(lines: list[str], is_drawn: bool) -> None:
    if not is_drawn:
        typer.echo("\n".join(lines))
        return
    picture = "".join(f"{line}{_TO_LINE_END}\n" for line in lines)
    sys.stdout.write(f"{HOME}{picture}{_TO_SCREEN_END}")
    sys.stdout.flush()
