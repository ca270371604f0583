"""The report of a run: a page that needs no other file, and the same figures on the terminal.

Owns how the outcome is shown. It computes nothing: every figure is one of `outcome`'s, and a
promise that was broken is shown as plainly as one that was kept.
"""

import base64
import html
from pathlib import Path
from typing import Final

from demo.outage import LAME_STORE
from demo.outcome import Outcome

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
    down = traffic.up_at - traffic.down_at
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{len(traffic.acknowledged):,} orders and an outage</title><style>{STYLE}</style>
<h1>{len(traffic.acknowledged):,} orders, one outage, {len(traffic.lost)} lost</h1>
<p class="lead">Four stores, sixteen fragments, the stock Azure Service Bus SDK. Store {LAME_STORE}
was down for {down:.1f} of {traffic.seconds:.0f} seconds. Every figure was measured in this run.</p>
<img alt="Orders stored per second, by store" src="data:image/png;base64,{plot}">
<h2>What was promised</h2>
<table>{rows}</table>
<h2>Made on the way</h2>
<ul>{links}</ul>
</html>
"""


def write_page(directory: Path, outcome: Outcome, plot: str, others: list[tuple[str, str]]) -> Path:
    """Write the page with a plot that lies beside it; returns where it is."""
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
