"""A stream that consumes from any Service Bus, by deferring messages.

Owns the mode `deferclaim`. For each batch messages are received with locks, recorded in a directory
and deferred; an offset names the record. Tasks read them as often as necessary. They are deleted
when Spark asks for the next batch, which it does only once this one is in its commit log. What an
earlier run deferred and no offset names becomes part of the next batch, so nothing is left behind.
"""

import functools
import logging
import time
import uuid
from collections.abc import Sequence
from typing import Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from partibus.domain import conditions
from pyspark_servicebus.errors import BulkError, retried
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.over_amqp.claim_files import CLAIM, INTENT, ClaimFiles
from pyspark_servicebus.over_amqp.deferral import Deferral
from pyspark_servicebus.over_amqp.holding import Holding, Place, place_of, portioned
from pyspark_servicebus.over_amqp.receiving import CLOCK_MS, Received, receive
from pyspark_servicebus.over_amqp.tasks import SetPartition
from pyspark_servicebus.over_amqp.wire import Wire
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.stream_reader import StreamReader

CHUNK_MESSAGES: Final = 500
"""Messages that are locked at a time, so that none waits long to be deferred."""
FIRST_CHUNK: Final = 50
_log: Final = logging.getLogger(__name__)


class DeferClaimStream(StreamReader):
    """One set of deferred messages for each batch."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._opened: tuple[Place, Wire, ClaimFiles, Deferral] | None = None
        self._run = uuid.uuid4().hex
        self._settled = ""
        self._next: tuple[Offset, Offset] | None = None
        """The last planned batch, with its start."""
        self._held: tuple[str, list[Holding]] = ("", [])
        self._is_clean = False
        self._until_ms: int | None = None
        """Where an availableNow run ends."""
        self._is_over = False

    # --- what it works with ---------------------------------------------------------------

    def _open(self) -> tuple[Place, Wire, ClaimFiles, Deferral]:
        """The connection to the bus and the records; this run fences off any earlier one."""
        if self._opened is None:
            options = self.options
            place = place_of(options)
            files = ClaimFiles(options.claim_location)
            files.take_over(self._run, place.path)
            wire = Wire(place.access)
            self._opened = place, wire, files, Deferral(wire, place.path, options.claim_owner)
        return self._opened

    def _files(self) -> ClaimFiles:
        """The records, as long as no later run has begun."""
        files = self._open()[2]
        if not files.is_mine(self._run):
            raise BulkError(
                conditions.PARTIBUS_CLAIM_FENCED,
                f"Another run of '{self.options.claim_owner}' has begun; this one has ended.",
                False,
            )
        return files

    # --- Spark's questions ----------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Nothing is claimed yet."""
        self._open()
        return SourceOffset(batch=0, claim="", count=0).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take what is there now, but not what arrives later."""
        self._until_ms = int(time.time() * 1000) + CLOCK_MS

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Delete what is done, and defer messages for the next batch."""
        done = SourceOffset.from_json(start)
        if self._next is not None and self._next[0] == start:
            return self._next[1]
        self._settle(done.claim or "")
        number = done.batch or 0
        name = f"{number:08d}-{uuid.uuid4().hex[:8]}"
        held = self._adopt(name)
        held += self._claim(name, *self.limits(limit), len(held))
        files = self._files()
        if held:
            files.note(name + CLAIM, held)
        for old in files.names(INTENT, CLAIM):
            if old != name + CLAIM:
                files.forget(old)
        if not held:
            return start
        self._held = (name, held)
        latest = SourceOffset(batch=number + 1, claim=name, count=len(held)).as_json()
        self._next = (start, latest)
        return latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch, claimed just now or by an earlier run."""
        planned = SourceOffset.from_json(end)
        name = planned.claim or ""
        if start == end or not name:
            return []
        place, _, files, _ = self._open()
        held = self._held[1] if self._held[0] == name else files.noted(name + CLAIM)
        if held is None or len(held) != planned.count:
            self.data_was_lost(
                "CLAIM_RECORD_MISSING",
                f"claimLocation: there is no record of the batch '{name}' with {planned.count} "
                "messages, which the checkpoint refers to.",
                "Give the directory that this query had before",
                claim=name,
                messages=planned.count,
            )
            held = held or []
        self._held = (name, held)
        return [
            SetPartition(place, [one.number for one in some])
            for some in portioned(held, self.options.partitions_min)
        ]

    def stop(self) -> None:
        """Close the connection; Spark does not always call this."""
        if self._opened is not None:
            self._opened[1].close()

    # --- batches --------------------------------------------------------------------------

    def _settle(self, name: str) -> None:
        """Delete the messages of a batch that is in the commit log; repeating this is harmless."""
        if not name or name == self._settled:
            return
        files = self._files()
        held = self._held[1] if self._held[0] == name else files.noted(name + CLAIM)
        stayed = self._open()[3].delete(held or [])
        if stayed:
            text = (
                f"{len(stayed)} messages of the batch '{name}', which is done, could not be "
                f"deleted: others hold them by their numbers, {stayed[0]} among them."
            )
            remedy = "Have the others complete them"
            reported = {"claim": name, "messages": len(stayed), "sequenceNumber": stayed[0]}
            self.data_was_lost("MESSAGES_HELD_BY_OTHERS", text, remedy, **reported)
            _log.warning("%s", text)
        files.forget(name + CLAIM)
        self._settled, self._held = name, ("", [])

    def _adopt(self, claim: str) -> list[Holding]:
        """What earlier runs have deferred, or intended to, and no offset names."""
        if self._is_clean:
            return []
        files, deferral = self._files(), self._open()[3]
        meant: dict[int, Holding] = {}
        for name in files.names(INTENT, CLAIM):
            meant |= {one.number: one for one in files.noted(name) or []}
        held = deferral.secure(list(meant.values()), claim) if meant else []
        self._is_clean = True
        return held

    def _claim(self, claim: str, messages: int, byte_count: int, taken: int) -> list[Holding]:
        """Receive, record and defer, a chunk at a time, within the limits."""
        place, wire, _, deferral = self._open()
        held: list[Holding] = []
        mean = byte_count // FIRST_CHUNK or 1
        while not self._is_over and taken + len(held) < messages and byte_count > 0:
            room = min(CHUNK_MESSAGES, messages - taken - len(held), byte_count // mean + 1)
            retry_s = self.options.retry_s
            received = retried(retry_s, functools.partial(receive, wire, place.path, room))
            if not received:
                break
            holdings = [one.holding for one in received]
            self._files().note(f"{claim}-{len(held):08d}{INTENT}", holdings)
            held += deferral.defer(received, claim)
            size = sum(one.byte_count for one in holdings)
            byte_count, mean = byte_count - size, size // len(received) + 1
            self._is_over = self._is_past(received)
        return held

    def _is_past(self, received: Sequence[Received]) -> bool:
        """Whether all of these arrived after the availableNow run began."""
        until_ms = self._until_ms
        return until_ms is not None and all(one.enqueued_ms > until_ms for one in received)
