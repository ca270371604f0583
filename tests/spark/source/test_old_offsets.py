"""Checkpoints of the first version of offsets: they go on where they were, each message once."""

from typing import Any

import pytest

from pyspark_servicebus.source.offsets import Offset
from spark.bus import Bus, once_each, texts
from spark.source.driving import Log, Query

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
_FIRST = {"version": "v", "generation": "g", "batch": "n", "claim": "c", "unsettled": "u"}


def first_version(offset: Offset) -> Offset:
    """The offset as the first release wrote it."""
    own: dict[str, Any] = {_FIRST[k]: v for k, v in offset.items() if k in _FIRST} | {"v": 1}
    if "claim" in offset:
        return {"u": {}, **own, "f": offset["messages"]}
    counts = {"k": offset["messages"]} if "messages" in offset else {}
    return {**own, "f": offset["positions"], **counts}


@pytest.mark.parametrize(("mode", "name"), [("cursor", "cursor"), ("claim", "claimOwner")])
@pytest.mark.parametrize("unfinished", [False, True])
def test_a_checkpoint_of_the_first_version_goes_on(
    bus: Bus, mode: str, name: str, unfinished: bool
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 60)
    options = bus.options(queue, mode=mode, maxMessagesPerTrigger=20, **{name: "job"})
    log = Log()
    before = Query(log, options)
    rows = before.batch() or []
    if unfinished:  # the second batch is in the offset log, and its run died
        assert before.plan()
    before.stop()
    log.offsets = [first_version(offset) for offset in log.offsets]
    after = Query(log, options)
    rows += after.drain()
    once_each(texts(rows), sent)
    assert log.offsets[-1]["version"] == 2
    after.stop()
