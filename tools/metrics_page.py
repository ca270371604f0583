"""The table of metrics for docs/reference/metrics.md, printed from the code.

Owns the form of a row. Run as `python tools/metrics_page.py`; a test compares the page.
"""

from partibus.ops.metrics import LABELS


def rows() -> list[str]:
    """One row for each metric."""
    return [
        f"| `{series.shown}` | {series.kind} | {', '.join(labels)} | {series.azure} "
        f"| {series.text} |"
        for series, labels in LABELS.items()
    ]


if __name__ == "__main__":
    print("\n".join(rows()))
