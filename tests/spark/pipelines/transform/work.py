"""Functions that transforms are given by name; they travel to Spark's workers by value."""

import json
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]


def doubled(frame: Any) -> Any:
    """Every message twice, told apart by its subject."""
    from pyspark.sql import functions as f

    return frame.withColumn("subject", f.explode(f.array(f.lit("one"), f.lit("two"))))


def fragile(frame: Any) -> Any:
    """Fails for the bodies 17 and 23."""
    from pyspark.sql import functions as f

    number = f.col("body").cast("string").cast("int")
    found = f.lit(100) / ((number - 17) * (number - 23))
    return frame.withColumn("subject", found.cast("string"))


def no_frame(frame: Any) -> str:
    return "nothing"


def odd_fail(row: Row) -> Row | None:
    """Fails for odd numbers, and drops those that end with 0."""
    number = int(row["body"])
    if number % 2:
        raise ValueError(f"{number} is odd")
    row["body"] = json.dumps({"number": number})
    return row if number % 10 else None


def counted(key: str, rows: list[Row], state: dict[str, Any], start: int = 0) -> Iterator[Row]:
    """Numbers the messages of a key, over all batches and runs."""
    for row in rows:
        state["count"] = state.get("count", start) + 1
        yield {"body": row["body"], "subject": f"{key} {state['count']}"}


def forgets_after_three(key: str, rows: list[Row], state: dict[str, Any]) -> list[Row]:
    made = []
    for row in rows:
        state["seen"] = [*state.get("seen", []), row["body"].decode()]
        if len(state["seen"]) == 3:
            made.append({"body": ",".join(state["seen"]), "subject": key})
            state.clear()
    return made
