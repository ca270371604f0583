"""The picture of the system: who sends, the fragments of the topic, their stores, and who receives.

Owns a drawing in SVG that is part of the page. Every box and figure in it was counted in the run;
the fragments are in the row of the store that holds them.
"""

import html
from dataclasses import dataclass
from typing import Final

CELL: Final = 52
ROW: Final = 62
LEFT: Final = 196
TOP: Final = 74


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment of the topic: where it lives, and the orders that it took."""

    index: int
    store: int
    worker: int
    orders: int


@dataclass(frozen=True, slots=True)
class Party:
    """A client of the bus: its name, and what it did."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class System:
    """What there is to draw."""

    topic: str
    fragments: list[Fragment]
    lame: int
    senders: Party
    receivers: list[Party]

    @property
    def stores(self) -> list[int]:
        return sorted({fragment.store for fragment in self.fragments})

    @property
    def workers(self) -> list[int]:
        return sorted({fragment.worker for fragment in self.fragments})

    def of_store(self, store: int) -> list[Fragment]:
        return [fragment for fragment in self.fragments if fragment.store == store]


def draw_system(system: System) -> str:
    """The drawing, for a page that has the variables --ink, --soft, --line and --paper."""
    columns = max(len(system.of_store(store)) for store in system.stores)
    inner = columns * CELL + 222
    height = max(TOP + len(system.stores) * ROW + 24, TOP + len(system.receivers) * 92)
    right = LEFT + inner
    workers = ", ".join(str(worker) for worker in system.workers)
    parts = [
        _box(LEFT, 18, inner, height - 24, "bus"),
        _text(LEFT + 16, 42, f"the bus, worker {workers}", "name"),
        _text(LEFT + 16, 61, f"topic {system.topic}, {len(system.fragments)} fragments", "soft"),
        _text(right - 172, 61, "stores", "soft"),
    ]
    for row, store in enumerate(system.stores):
        parts += _store_row(system, store, TOP + row * ROW, columns)
    middle = TOP + len(system.stores) * ROW / 2
    parts += [_party(8, middle - 40, system.senders), _arrow(158, LEFT - 6, middle)]
    for place, party in enumerate(system.receivers):
        y = TOP - 44 + place * 92
        parts += [_arrow(right + 6, right + 40, y + 36), _party(right + 44, y, party)]
    body = "\n".join(parts)
    return (
        f'<svg class="system" viewBox="0 0 {right + 202} {height}" role="img"'
        f' aria-label="The system: senders, fragments, stores and receivers">{ARROW}{body}</svg>'
    )


ARROW: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>'
)


def _store_row(system: System, store: int, y: float, columns: int) -> list[str]:
    fragments = system.of_store(store)
    most = max(fragment.orders for fragment in system.fragments) or 1
    is_lame = store == system.lame
    kind = "lame" if is_lame else "well"
    parts = []
    for column, fragment in enumerate(fragments):
        x = LEFT + 16 + column * CELL
        opacity = 0.12 + 0.6 * fragment.orders / most
        parts += [
            f'<rect x="{x}" y="{y}" width="{CELL - 6}" height="{ROW - 14}" rx="5"'
            f' class="{kind} fill" fill-opacity="{opacity:.2f}"/>',
            _text(x + 23, y + 19, str(fragment.index), "index"),
            _text(x + 23, y + 37, f"{fragment.orders:,}", "count"),
        ]
    x = LEFT + 16 + columns * CELL
    total = sum(fragment.orders for fragment in fragments)
    parts += [
        _arrow(x, x + 26, y + 24),
        f'<rect x="{x + 30}" y="{y}" width="158" height="{ROW - 14}" rx="14" class="{kind} edge"/>',
        _text(x + 109, y + 20, f"store {store}" + (", went down" if is_lame else ""), "index"),
        _text(x + 109, y + 38, f"{total:,} orders", "count"),
    ]
    return parts


def _party(x: float, y: float, party: Party) -> str:
    lines = [_text(x + 12, y + 22, party.name, "name")]
    lines += [
        _text(x + 12, y + 40 + 16 * n, line, "soft small") for n, line in enumerate(party.lines)
    ]
    return _box(x, y, 150, 30 + 18 * len(party.lines), "party") + "".join(lines)


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return f'<rect x="{x:.0f}" y="{y:.0f}" {size} rx="8" class="{kind}"/>'


def _arrow(begin: float, end: float, y: float) -> str:
    return f'<path d="M{begin:.0f} {y:.0f} H{end:.0f}" class="arrow" marker-end="url(#tip)"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{html.escape(text)}</text>'
