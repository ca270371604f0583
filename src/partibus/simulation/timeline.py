"""The timeline of a run as one HTML page: a row for each process, store, client and entity.

Owns the page, which needs only a browser. Dots are events; their texts show under the pointer, and
the list below has them all. A process that is down has a grey bar. Typing a word, such as the
number of a message, filters both.
"""

from html import escape

from partibus.simulation.process import DOWN, STARTS
from partibus.simulation.run import Verdict

WIDTH = 1500
ROW = 18
LEFT = 150
EVENTS_MAX = 6000
COLOURS = {
    "fault": "#c0392b",
    "accepted": "#27ae60",
    "refused": "#e67e22",
    "arrived": "#2980b9",
    "done": "#7f8c8d",
    "starts": "#16a085",
}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Simulated run {seed}</title>
<style>
body {{ font: 13px system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }}
svg {{ border: 1px solid #ccc }} text {{ font-size: 11px }} circle:hover {{ stroke: #000 }}
table {{ border-collapse: collapse; margin-top: 1em }}
td {{ padding: 1px 8px; vertical-align: top }}
.bad {{ color: #c0392b; font-weight: 600 }}
.key {{ margin-right: 1.2em }} input {{ font: inherit; width: 16em }} .off {{ display: none }}
</style></head><body>
<h1>Seed {seed}</h1>
<p>{plan}</p>
<p class="{verdict_class}">{verdict}</p>
<p>{key}</p>
<p><label>Only events with <input id="wanted" placeholder="a number or a name"></label></p>
<svg width="{width}" height="{height}">{bars}{lines}{dots}</svg>
<table>{rows}</table>
<script>
const wanted = document.getElementById("wanted");
const events = document.querySelectorAll("circle, tr");
wanted.addEventListener("input", () => {{
  const word = wanted.value.trim().toLowerCase();
  for (const each of events) {{
    const words = each.textContent.toLowerCase().split(/[^a-z0-9-]+/);
    each.classList.toggle("off", word !== "" && !words.includes(word));
  }}
}});
</script>
</body></html>
"""


def timeline(verdict: Verdict) -> str:
    """The page of a run with recorded events."""
    events = [(step, us, _row(who, what), what) for step, us, who, what in verdict.events]
    events = events[-EVENTS_MAX:]
    names = list(dict.fromkeys(row for _, _, row, _ in events))
    names.sort(key=_rank)
    rows = {name: ROW * (index + 1) for index, name in enumerate(names)}
    scale = Scale([step for step, _, _, _ in events])
    dots = "".join(
        f'<circle cx="{scale.x(step):.1f}" cy="{rows[row]}" r="3" fill="{_colour(row, what)}">'
        f"<title>step {step}, {us / 1000:.3f} ms: {escape(what)}</title></circle>"
        for step, us, row, what in events
    )
    lines = "".join(
        f'<text x="4" y="{y + 4}">{escape(name)}</text>'
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#eee"/>'
        for name, y in rows.items()
    )
    table = "".join(
        f"<tr><td>{step}</td><td>{us / 1000:.3f} ms</td><td>{escape(row)}</td>"
        f"<td>{escape(what)}</td></tr>"
        for step, us, row, what in events
    )
    key = "".join(
        f'<span class="key"><span style="color:{colour}">&#9679;</span> {word}</span>'
        for word, colour in COLOURS.items()
    )
    return PAGE.format(
        seed=verdict.plan.seed,
        plan=escape(verdict.plan.describe()),
        verdict=escape(verdict.violation or f"No promise was broken. {verdict.totals}"),
        verdict_class="bad" if verdict.violation else "good",
        width=WIDTH,
        height=ROW * (len(names) + 1),
        key=key,
        bars=_bars(events, rows, scale),
        lines=lines,
        dots=dots,
        rows=table,
    )


class Scale:
    """Where on the page a step is."""

    def __init__(self, steps: list[int]) -> None:
        self.first = steps[0] if steps else 0
        self.last = steps[-1] if steps else 1

    def x(self, step: int) -> float:
        """From the left edge."""
        return LEFT + (step - self.first) * (WIDTH - LEFT - 20) / max(1, self.last - self.first)


def _bars(events: list[tuple[int, int, str, str]], rows: dict[str, int], scale: Scale) -> str:
    """When processes were down."""
    bars: list[str] = []
    since: dict[str, int] = {}
    ends = [(scale.last, 0, name, STARTS) for name in rows]
    for step, _, row, what in [*events, *ends]:
        if what == DOWN:
            since.setdefault(row, step)
        elif what == STARTS and row in since:
            begin = scale.x(since.pop(row))
            width = max(2.0, scale.x(step) - begin)
            bars.append(
                f'<rect x="{begin:.1f}" y="{rows[row] - 6}" width="{width:.1f}" height="12" '
                'fill="#ddd"/>'
            )
    return "".join(bars)


def _rank(name: str) -> tuple[int, str]:
    """Faults on top, then processes, stores, and everything else."""
    kinds = ("fault", "worker", "node", "store", "database", "lane")
    found = [at for at, kind in enumerate(kinds) if name.startswith(kind)]
    return (found[0] if found else len(kinds), name)


def _row(who: str, what: str) -> str:
    """Messages are in the rows of the places that they come from."""
    if who != "ledger":
        return who
    for word in (" from ", " at "):
        if word in what:
            return what.rsplit(word, 1)[1]
    return "messages"


def _colour(row: str, what: str) -> str:
    if row == "fault" or row.startswith(("store", "database")):
        return COLOURS["fault"]
    return COLOURS.get(what.split(" ", 1)[0], "#8e44ad")
