"""Which steps of a batch are tried together."""

from pyspark_servicebus.pipelines.transform.batches import Counts, parts_of
from pyspark_servicebus.pipelines.transform.steps import Step


def test_parts() -> None:
    kinds = ["filter", "sql", "rows", "rows", "set", "drop"]
    parts = parts_of([Step(kind, "x") for kind in kinds])
    assert [[step.kind for step in part] for part in parts] == [
        ["filter", "sql"],
        ["rows"],
        ["rows"],
        ["set", "drop"],
    ]
    assert parts_of([]) == []


def test_counts() -> None:
    counts = Counts()
    counts.by_batch[3] = 7
    assert (counts.rows_of(3), counts.rows_of(4)) == (7, 0)
