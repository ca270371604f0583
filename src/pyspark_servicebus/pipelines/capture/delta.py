"""Delta tables without a JVM: a window is one commit, and one commit only.

Owns the use of delta-rs. A commit carries the id of the capture and the number of the window as an
application transaction, so that committing a window again adds nothing. Files are where the capture
has put them, inside the table's folder.
"""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import CapturedFile, Window
from pyspark_servicebus.pipelines.run.settings import SettingsError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def is_delta(lake: Lake) -> bool:
    """Whether the target is a Delta table."""
    return bool(lake.names("_delta_log"))


def open_table(lake: Lake) -> "DeltaTable":
    """The table as it is now."""
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise SettingsError(
            "format: delta needs the library deltalake: pip install 'partibus[spark]'"
        ) from None
    return DeltaTable(lake.root if lake.is_local else lake.uri)


def make_table(lake: Lake, schema: pa.Schema) -> "DeltaTable":
    """The table; created with these columns if it does not exist."""
    from deltalake import DeltaTable

    if is_delta(lake):
        return open_table(lake)
    place = lake.root if lake.is_local else lake.uri
    return DeltaTable.create(place, schema, mode="ignore")


def commit_window(lake: Lake, window: Window, schema: pa.Schema) -> bool:
    """Add the files of a window, once; returns whether this call did it."""
    table = make_table(lake, schema)
    if has_commit(table, window.app, window.batch):
        return False
    described = {"partibus.window": window.name, "partibus.rows": str(window.rows)}
    commit(table, [_action(file) for file in window.files], window.app, window.batch, described)
    return True


def has_commit(table: "DeltaTable", app: str, batch: int) -> bool:
    """Whether a batch of an application is in the table."""
    done = table.transaction_version(app)
    return done is not None and done >= batch


def commit(
    table: "DeltaTable",
    actions: list[Any],
    app: str,
    batch: int,
    metadata: dict[str, str] | None = None,
) -> None:
    """Add files as one batch of an application."""
    from deltalake import CommitProperties, Transaction

    properties = CommitProperties(
        app_transactions=[Transaction(app, batch)], custom_metadata=metadata
    )
    table.create_write_transaction(
        actions, mode="append", schema=table.schema(), commit_properties=properties
    )


def compact_table(lake: Lake, file_bytes: int) -> dict[str, Any]:
    """Merge small files; readers of the table see the old ones or the new ones."""
    return open_table(lake).optimize.compact(target_size=file_bytes)


def _action(file: CapturedFile) -> Any:
    spans = file.fragments.values()
    stats = {
        "numRecords": file.rows,
        "minValues": {"sequence_number": min(span.first for span in spans)},
        "maxValues": {"sequence_number": max(span.last for span in spans)},
        "nullCount": {"sequence_number": 0},
    }
    return added(file.path, file.bytes, stats)


def added(path: str, size: int, stats: Mapping[str, Any]) -> Any:
    """The line of a commit that adds one file."""
    from deltalake.transaction import AddAction

    return AddAction(
        path=quote(path),
        size=size,
        partition_values={},
        modification_time=round(time.time() * 1000),
        data_change=True,
        stats=json.dumps(stats),
    )
