"""A self-contained page for a browser: no scripts, no fonts, no external links.

Owns the look of reports in HTML: type, tables, tiles of numbers, figures, for a light and a dark
screen and for paper. Everything that comes from messages is escaped here. The pipeline provides the
content.
"""

import base64
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from pyspark_servicebus.pipelines.report.charts import DARK, LIGHT, Chart

_STYLE: Final = """
:root { color-scheme: light dark; --ground: #ffffff; --card: #f6f7f9; --ink: #1b1f24;
  --quiet: #5b6470; --line: #e1e4e8; --accent: #1f6feb; --wash: #dbe8fd; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171c; --card: #1c2027; --ink: #e8eaed;
  --quiet: #9aa4b2; --line: #2f353e; --accent: #6ea8fe; --wash: #22365a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 3rem 1.5rem 4rem; max-width: 62rem; background: var(--ground);
  color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
  "DejaVu Sans", sans-serif; }
header { margin-bottom: 2.2rem; }
.over { color: var(--quiet); font-size: .875rem; margin: 0 0 .4rem; }
h1 { font-size: 1.9rem; line-height: 1.25; letter-spacing: -.01em; margin: 0 0 .6rem;
  text-wrap: balance; }
h2 { font-size: 1.2rem; line-height: 1.35; margin: 2.8rem 0 .2rem; text-wrap: balance; }
h2 + p { color: var(--quiet); font-size: .9375rem; margin: 0 0 .9rem; max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.4rem, 1fr)); gap: .8rem;
  margin: 1.6rem 0 0; padding: 0; }
.tile { background: var(--card); border-radius: .6rem; padding: .85rem 1rem; }
.tile b { display: block; font-size: 1.3rem; line-height: 1.25; font-weight: 650;
  white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--quiet); font-size: .875rem; }
figure { margin: 0; }
figure img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; font-weight: 600; color: var(--quiet); border-bottom: 1px solid var(--line);
  padding: .35rem .9rem .35rem 0; white-space: nowrap; }
td { border-bottom: 1px solid var(--line); padding: .4rem .9rem .4rem 0; vertical-align: top; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.plain { overflow-wrap: break-word; min-width: 5.5rem; }
td.text { overflow-wrap: anywhere; min-width: 14rem; }
td.bar { min-width: 5rem; }
td.bar i { display: block; height: .7rem; margin-top: .35rem; border-radius: .2rem;
  background: var(--accent); min-width: 2px; }
details { margin: .8rem 0 0; }
summary { cursor: pointer; color: var(--quiet); font-size: .9rem; }
details[open] summary { margin-bottom: .5rem; }
code, pre { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; }
pre { margin: .2rem 0 0; padding: .6rem .8rem; background: var(--card); border-radius: .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: var(--wash); color: inherit; border-radius: .25rem; padding: 0 .2rem; }
footer { margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--line);
  color: var(--quiet); font-size: .875rem; }
@media print { body { padding: 0; max-width: none; } details { display: none; }
  h2, figure, table { break-inside: avoid; } }
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; `kind` is plain, number, time, bar, or code for texts of messages."""

    head: str
    kind: str = "plain"


@dataclass(slots=True)
class Page:
    """A report, section by section."""

    title: str
    over: str
    """The line above the title: which report this is, of what."""
    footer: str = ""
    _parts: list[str] = field(default_factory=list)

    def tiles(self, numbers: Sequence[tuple[str, str]]) -> None:
        """The few important numbers, each with a label."""
        cells = [
            f'<div class="tile"><b>{escape(number)}</b><span>{escape(words)}</span></div>'
            for number, words in numbers
        ]
        self._parts.append(f'<div class="tiles">{"".join(cells)}</div>')

    def section(self, title: str, text: str = "") -> None:
        """A heading that states the finding, and how to read what follows."""
        self._parts.append(f"<h2>{_heading(title)}</h2><p>{escape(text)}</p>")

    def chart(self, chart: Chart) -> None:
        """A chart for both kinds of screen, under its finding, which is the alternative text."""
        self.section(chart.title, chart.subtitle)
        light, dark = (_data(chart.png(theme, with_title=False)) for theme in (LIGHT, DARK))
        words = escape(f"{chart.title}. {chart.subtitle}")
        self._parts.append(
            f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            f'<img alt="{words}" src="{light}"></picture></figure>'
        )

    def table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[object]],
        summary: str | None = None,
    ) -> None:
        """A table; with a summary it is collapsed."""
        made = f'<div class="scroll">{table_html(columns, rows)}</div>'
        self._parts.append(made if summary is None else _folded(summary, made))

    def raw(self, html: str) -> None:
        """HTML made and escaped by the caller."""
        self._parts.append(html)

    def render(self) -> str:
        """The whole page."""
        made = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head><body>\n"
            f'<header><p class="over">{escape(self.over)}</p><h1>{_heading(self.title)}</h1>'
            "</header>\n" + "\n".join(self._parts) + f"\n<footer>{escape(self.footer)} Made {made} "
            "by Partibus.</footer>\n</body></html>\n"
        )


def table_html(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> str:
    """A table; a bar is a share from 0 to 1."""
    kinds = [column.kind for column in columns]
    heads = "".join(
        f'<th class="{kind}">{escape(column.head)}</th>'
        for kind, column in zip(kinds, columns, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell(k, value) for k, value in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _heading(text: str) -> str:
    """A number stays with its unit."""
    return escape(text).replace(" %", "&nbsp;%")


def _cell(kind: str, value: object) -> str:
    if kind == "bar":
        share = max(0.0, min(1.0, float(str(value))))
        return f'<td class="bar"><i style="width:{100 * share:.1f}%"></i></td>'
    text = escape(str(value))
    if kind == "plain":
        text = text.replace("/", "/<wbr>")
    if kind == "code":
        return f'<td class="text"><code>{text}</code></td>'
    return f'<td class="{kind}">{text}</td>'


def _folded(summary: str, html: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def _data(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
