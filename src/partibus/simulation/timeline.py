"""The timeline of a run as one HTML page: a lane for each process, client, store and fault.

Owns the page, which needs nothing but a browser. Dots are events; their words show under the
pointer, and the list below has them all.
"""

from html import escape

from partibus.simulation.run import Verdict

WIDTH = 1500
LANE = 18
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
</style></head><body>
<h1>Seed {seed}</h1>
<p>{plan}</p>
<p class="{verdict_class}">{verdict}</p>
<svg width="{width}" height="{height}">{lanes}{dots}</svg>
<table>{rows}</table>
</body></html>
"""


def timeline(verdict: Verdict) -> str:
    """The page of a run that kept its events."""
    events = [(step, us, _lane(who, what), what) for step, us, who, what in verdict.events]
    events = events[-EVENTS_MAX:]
    names = list(dict.fromkeys(lane for _, _, lane, _ in events))
    names.sort(key=lambda name: (name != "fault", not name.startswith("worker"), name))
    rows = {name: LANE * (index + 1) for index, name in enumerate(names)}
    first = events[0][0] if events else 0
    span = max(1, (events[-1][0] if events else 1) - first)
    dots = "".join(
        f'<circle cx="{LEFT + (step - first) * (WIDTH - LEFT - 20) / span:.1f}" '
        f'cy="{rows[lane]}" r="3" fill="{_colour(lane, what)}">'
        f"<title>step {step}, {us / 1000:.3f} ms: {escape(what)}</title></circle>"
        for step, us, lane, what in events
    )
    lanes = "".join(
        f'<text x="4" y="{y + 4}">{escape(name)}</text>'
        f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#eee"/>'
        for name, y in rows.items()
    )
    table = "".join(
        f"<tr><td>{step}</td><td>{us / 1000:.3f} ms</td><td>{escape(lane)}</td>"
        f"<td>{escape(what)}</td></tr>"
        for step, us, lane, what in events
    )
    return PAGE.format(
        seed=verdict.plan.seed,
        plan=escape(verdict.plan.describe()),
        verdict=escape(verdict.violation or f"No promise was broken. {verdict.totals}"),
        verdict_class="bad" if verdict.violation else "good",
        width=WIDTH,
        height=LANE * (len(names) + 1),
        lanes=lanes,
        dots=dots,
        rows=table,
    )


def _lane(who: str, what: str) -> str:
    """Messages are in the lanes of the places that they come from."""
    if who != "ledger":
        return who
    for word in (" from ", " at "):
        if word in what:
            return what.rsplit(word, 1)[1]
    return "messages"


def _colour(lane: str, what: str) -> str:
    if lane == "fault":
        return COLOURS["fault"]
    return COLOURS.get(what.split(" ", 1)[0], "#8e44ad")
