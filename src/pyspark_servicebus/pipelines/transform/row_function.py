"""Functions of rows: one message in, any number of messages out.

Owns the conversion of a row from Arrow to a dictionary and back, and what a function may return. It
runs in Spark's workers. A row that fails fails the task, or becomes a message for the queue for
failures, depending on the settings; it never disappears.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.pipelines.transform.failed_rows import failed_row
from pyspark_servicebus.schema import COLUMNS, TARGET_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Row = dict[str, Any]
RowFunction = Callable[[Row], Row | Iterable[Row] | None]

OUT_COLUMNS: Final = (*COLUMNS, TARGET_COLUMN)
"""What a function of rows returns: messages, and their targets."""
_MAPS: Final = ("application_properties", "application_property_types")
_ROWS_PER_BATCH: Final = 4096


class RowFailed(Exception):
    """A function failed for a row; the text says for which and how."""


def out_schema(given: "StructType | None" = None) -> "StructType":
    """The columns of `OUT_COLUMNS`, for Spark, and those that other steps have added."""
    from pyspark.sql.types import StringType, StructField, StructType

    from pyspark_servicebus.schema import spark_schema

    fields = [*spark_schema(list(COLUMNS)).fields, StructField(TARGET_COLUMN, StringType(), True)]
    added = [] if given is None else [f for f in given.fields if f.name not in OUT_COLUMNS]
    return StructType(fields + added)


def arrow_out_schema(given: "StructType | None" = None) -> "pa.Schema":
    """The same, for Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(out_schema(given), timezone="UTC")


@dataclass(eq=False, slots=True)
class RowStep:
    """A function of rows, as `mapInArrow` calls it in a worker."""

    function: RowFunction
    name: str
    failures: str | None
    """Where messages go when the function fails for them; None to fail the task."""
    schema: "pa.Schema"

    def __call__(self, batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        waiting: list[Row] = []
        for batch in batches:
            for row in rows_of(batch):
                waiting += self._made(row)
                if len(waiting) >= _ROWS_PER_BATCH:
                    yield batch_of(waiting, self.schema)
                    waiting = []
        if waiting:
            yield batch_of(waiting, self.schema)

    def _made(self, row: Row) -> list[Row]:
        # The function may change its row; a failure shows the original.
        given = {**row, **{name: dict(row[name]) for name in _MAPS if row.get(name)}}
        try:
            return list(messages_of(self.function(given), self.schema.names))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if self.failures is None:
                where = f"{row.get('entity')} {row.get('sequence_number')}"
                raise RowFailed(f"{self.name} failed for the message {where}: {text}") from error
            return [failed_row(row, text, self.failures)]


def rows_of(batch: "pa.RecordBatch") -> Iterator[Row]:
    """Rows as dictionaries; maps are dictionaries too."""
    maps = [name for name in _MAPS if name in batch.schema.names]
    for row in batch.to_pylist():
        for name in maps:
            row[name] = dict(row[name] or ())
        yield row


def messages_of(given: object, names: Sequence[str]) -> Iterator[Row]:
    """The return value of a function, as rows with only the columns of messages."""
    if given is None:
        return
    rows = [given] if isinstance(given, Mapping) else given
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes):
        raise TypeError(f"it returned a {type(given).__name__}; expected a row, rows or None")
    for row in rows:
        yield _message(row, names)


def _message(row: Any, names: Sequence[str]) -> Row:
    if not isinstance(row, Mapping):
        raise TypeError(f"it returned a {type(row).__name__} among its rows; a row is a dict")
    unknown = [name for name in row if name not in names]
    if unknown:
        raise KeyError(f"it returned a column '{unknown[0]}' that messages do not have")
    message = {name: row.get(name) for name in names}
    body = message["body"]
    if isinstance(body, str):
        message["body"] = body.encode()
    elif not isinstance(body, bytes | bytearray):
        raise TypeError(f"it returned a body that is a {type(body).__name__}; write str or bytes")
    return message


def batch_of(rows: list[Row], schema: "pa.Schema") -> "pa.RecordBatch":
    """Rows as Arrow; dictionaries become the pairs that it needs for maps."""
    import pyarrow as pa

    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if field.name in _MAPS:
            values = [None if v is None else [(k, _text(t)) for k, t in v.items()] for v in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)
