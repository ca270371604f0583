"""The report of a run: a page that needs no other file, and the same figures on the terminal.

Owns how the outcome is shown. It computes nothing: every figure is one of `outcome`'s, and a
promise that was broken is shown as plainly as one that was kept.
"""

import base64
import html
from collections import Counter
from pathlib import Path
from typing import Final

from demo.billing import RECEIVERS
from demo.outage import LAME_STORE
from demo.outcome import Outcome
from demo.picture import Fragment, Party, System, draw_system
from demo.senders import RETRIERS, SENDERS

STYLE: Final = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --soft: #667; --line: #ddd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #16181d; --soft: #9aa; --line: #333; }
  img { background: #fff; border-radius: 6px; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.lead { color: var(--soft); margin-top: 0; }
table { border-collapse: collapse; width: 100%; }
td { padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.mark { width: 1.5rem; font-weight: 700; color: #2a8a4a; } td.mark.broken { color: #c33; }
td.figures { color: var(--soft); } img { max-width: 100%; }
figure { margin: 1.6rem 0; } figcaption { font-weight: 600; margin: .2rem 0 .6rem; }
svg.system { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg.system text { fill: var(--ink); } svg.system .soft { fill: var(--soft); }
svg.system .name { font-weight: 600; font-size: 14px; } svg.system .small { font-size: 12px; }
svg.system .index, svg.system .count { text-anchor: middle; } svg.system .count { font-size: 12px; }
svg.system .index { font-weight: 600; } svg.system .bus { fill: none; stroke: var(--soft); }
svg.system .party { fill: none; stroke: var(--line); stroke-width: 1.5; }
svg.system .well.fill { fill: #2f6fb0; } svg.system .lame.fill { fill: #d1495b; }
svg.system .edge { fill: none; stroke-width: 2; } svg.system .well.edge { stroke: #2f6fb0; }
svg.system .lame.edge { stroke: #d1495b; stroke-dasharray: 5 3; }
svg.system .arrow { stroke: var(--soft); stroke-width: 1.5; fill: none; }
svg.system .tip { fill: var(--soft); }
"""


def page(outcome: Outcome, plot: str, others: list[tuple[str, str]]) -> str:
    """The page; `plot` is a picture in base64, `others` are titles and files beside it."""
    traffic = outcome.traffic
    rows = "\n".join(
        f'<tr><td class="mark{"" if promise.is_kept else " broken"}">'
        f"{'&#10003;' if promise.is_kept else '&#10007;'}</td><td>{html.escape(promise.text)}</td>"
        f'<td class="figures">{html.escape(promise.figures)}</td></tr>'
        for promise in outcome.promises()
    )
    links = "\n".join(
        f'<li><a href="{html.escape(file)}">{html.escape(title)}</a></li>' for title, file in others
    )
    timeline = outcome.captured.timeline
    stores, fragments = len(timeline.stores), len(outcome.captured.places)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{len(traffic.sales):,} orders and an outage</title><style>{STYLE}</style>
<h1>{len(traffic.sales):,} orders, one outage, {len(traffic.lost)} lost</h1>
<p class="lead">{stores} stores, {fragments} fragments, the stock Azure Service Bus SDK. Store
{LAME_STORE} was down for {traffic.outage.seconds:.1f} seconds while orders arrived. Every figure
was measured in this run.</p>
<h2>What ran</h2>
<figure>{draw_system(system_of(outcome))}
<p class="lead">The number of a fragment, and the orders that it took. A customer's orders go to one
fragment, so that they stay in order; one customer orders far more than the others.</p></figure>
<h2>What happened</h2>
<figure><figcaption>{html.escape(timeline.rate_title())}.<br>
{html.escape(timeline.wait_title())}.</figcaption>
<img alt="Above: orders stored per second, by store. Below: how long orders waited."
src="data:image/png;base64,{plot}">
<p class="lead">In steps of {timeline.bin_seconds:.2g} s; paler while the commands that stopped and
started the store were running. Below are the orders for the stores that stayed up, as the shop
measured them.</p></figure>
<h2>What was promised</h2>
<table>{rows}</table>
<h2>Made on the way</h2>
<ul>{links}</ul>
</html>
"""


def system_of(outcome: Outcome) -> System:
    """What the picture of the system shows."""
    traffic, captured, treated = outcome.traffic, outcome.captured, outcome.treated
    counts = Counter(order.fragment for order in captured.timeline.orders)
    shop = (f"{SENDERS} senders,", f"{RETRIERS} that try again:", f"{len(traffic.sales):,} orders")
    billing = (
        f"{RECEIVERS} receivers:",
        f"{treated.booked_in_the_end:,} booked,",
        f"{treated.parked:,} parked",
    )
    return System(
        topic="orders",
        fragments=[
            Fragment(place.fragment, place.store, place.worker, counts[place.fragment])
            for place in captured.places
        ],
        lame=LAME_STORE,
        senders=Party("shop", shop),
        receivers=[
            Party("billing", billing),
            Party("shipping", ("express orders only:", f"{outcome.shipped:,} waiting")),
            Party("capture", ("Spark, from billing:", f"{captured.rows:,} rows")),
        ],
    )


def write_page(directory: Path, outcome: Outcome, plot: str, others: list[tuple[str, str]]) -> Path:
    """Write the page, beside the plot; returns its path."""
    file = directory / "index.html"
    image = base64.b64encode((directory / plot).read_bytes()).decode()
    file.write_text(page(outcome, image, others), encoding="utf-8")
    return file


def summary(outcome: Outcome) -> str:
    """The report for the terminal."""
    lines = [promise.line() for promise in outcome.promises()]
    lines += ["", f"  {outcome.captured.finding}", ""]
    verdict = "Every promise was kept" if outcome.is_kept else "A PROMISE WAS BROKEN"
    lines.append(f"{verdict}, in {outcome.total_seconds:.0f} s.")
    return "\n".join(lines)
