"""Charts as PNG: one look for all pipelines, for light and for dark screens.

Owns colours, fonts and the frame of a chart, and draws with matplotlib without a display. A chart
provides its title, which states the finding, a line on what is measured and in which unit, and a
function that draws. It knows nothing of messages.
"""

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI: Final = 160
WIDTH_INCHES: Final = 9.0
_TURN: Final = threading.Lock()
"""matplotlib's settings are per process."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one kind of screen."""

    ground: str
    ink: str
    quiet: str
    line: str
    accent: str
    warm: str
    series: tuple[str, ...]
    """For categories, distinguishable with colour blindness too."""


LIGHT: Final = Theme(
    ground="#ffffff",
    ink="#1b1f24",
    quiet="#5b6470",
    line="#e1e4e8",
    accent="#1f6feb",
    warm="#d9480f",
    series=("#1f6feb", "#e8833a", "#2a9d8f", "#8e5bd0", "#b5495b", "#7a8594"),
)
DARK: Final = Theme(
    ground="#14171c",
    ink="#e8eaed",
    quiet="#9aa4b2",
    line="#2f353e",
    accent="#6ea8fe",
    warm="#ff8b5e",
    series=("#6ea8fe", "#f0a868", "#4fc3b2", "#b794f0", "#e07a8d", "#8f9aa8"),
)


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: what it says, and how it is drawn."""

    name: str
    title: str
    subtitle: str
    draw: "Callable[[Axes, Theme], None]"
    height_inches: float = 3.4

    def png(self, theme: Theme = LIGHT, *, with_title: bool = True) -> bytes:
        """The picture; without a title where the page repeats it."""
        import matplotlib

        with _TURN, matplotlib.rc_context(_settings(theme)):
            from matplotlib.figure import Figure

            height = self.height_inches + (0.8 if with_title else 0.0)
            figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, layout="constrained")
            figure.set_facecolor(theme.ground)
            axes = figure.add_subplot()
            _frame(axes, theme)
            self.draw(axes, theme)
            if with_title:
                _title(figure, self, theme)
            raw = io.BytesIO()
            figure.savefig(raw, format="png", facecolor=theme.ground)
            return raw.getvalue()

    def save(self, directory: Path) -> Path:
        """Write the picture for a light screen, with its title."""
        file = directory / f"{self.name}.png"
        file.write_bytes(self.png())
        return file


def _settings(theme: Theme) -> dict[str, Any]:
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["Inter", "Segoe UI", "Helvetica Neue", "Noto Sans", "DejaVu Sans"],
        "font.size": 10.5,
        "text.color": theme.ink,
        "axes.labelcolor": theme.quiet,
        "xtick.color": theme.quiet,
        "ytick.color": theme.quiet,
        "axes.facecolor": theme.ground,
        "figure.constrained_layout.h_pad": 0.08,
        "figure.constrained_layout.w_pad": 0.08,
        "text.parse_math": False,
    }


def _frame(axes: "Axes", theme: Theme) -> None:
    """A base line and faint lines across; nothing else."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(theme.line)
    axes.grid(axis="y", color=theme.line, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    axes.margins(x=0.01)


def _title(figure: Any, chart: Chart, theme: Theme) -> None:
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.8 / figure.get_figheight()))
    top = 1 - 0.16 / figure.get_figheight()
    figure.text(
        *(0.012, top), chart.title, fontsize=14, fontweight="bold", color=theme.ink, va="top"
    )
    below = 1 - 0.5 / figure.get_figheight()
    figure.text(*(0.012, below), chart.subtitle, fontsize=10.5, color=theme.quiet, va="top")
