"""Stateful functions: `(key, rows, state) -> rows`, with a state for each key.

Owns how such a function uses Spark's `transformWithState`: the rows of a key come in the order of
their sequence numbers, and the state is a dictionary that Spark keeps as JSON with the checkpoint,
so a batch that is run again begins with the same state. Runs in Spark's workers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_servicebus.pipelines.transform.failed_rows import failed_row
from pyspark_servicebus.pipelines.transform.row_function import (
    Row,
    RowFailed,
    messages_of,
)

State = dict[str, Any]
StateFunction = Callable[[Any, list[Row], State], Row | Iterable[Row] | None]

PROVIDER_SETTING: Final = "spark.sql.streaming.stateStore.providerClass"
PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only state store that supports this kind of state."""
_SCHEMA: Final = StructType([StructField("state", StringType(), True)])


@dataclass(eq=False)
class StateStep(StatefulProcessor):
    """A stateful function, as `transformWithState` calls it in a worker."""

    function: StateFunction
    name: str
    forget_ms: int | None
    failures: str | None
    columns: Sequence[str]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark has opened the state."""
        self._state = handle.getValueState("state", _SCHEMA, self.forget_ms)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[SparkRow],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[SparkRow]:
        """The rows of one key in this batch."""
        given = sorted((_plain(row) for row in rows), key=_number)
        for message in self._made(_key(key), given):
            yield SparkRow(**{name: message.get(name) for name in self.columns})

    def close(self) -> None:
        """Nothing to close."""

    def _made(self, key: Any, rows: list[Row]) -> list[Row]:
        kept_before = self._state.get()
        text = None if kept_before is None else kept_before[0]
        state: State = json.loads(text) if text else {}
        try:
            given = [dict(row) for row in rows]
            made = list(messages_of(self.function(key, given, state), self.columns))
            kept = json.dumps(state) if state else None
        except Exception as error:
            reported = f"{type(error).__name__}: {error}"
            if self.failures is None:
                raise RowFailed(f"{self.name} failed for the key {key!r}: {reported}") from error
            # The state stays as it was before these rows.
            return [failed_row(row, reported, self.failures) for row in rows]
        if kept is not None:
            self._state.update((kept,))
        elif text is not None:
            self._state.clear()
        return made


def _key(key: Any) -> Any:
    """The value of one column, or a tuple of several."""
    values = tuple(key)
    return values[0] if len(values) == 1 else values


def _plain(row: SparkRow) -> Row:
    found: Row = row.asDict()
    if isinstance(found.get("body"), bytearray):
        found["body"] = bytes(found["body"])
    return found


def _number(row: Row) -> int:
    return int(row.get("sequence_number") or 0)
