"""A stream that follows an entity: every message once, in order, independently of receivers.

Owns the modes `cursor` and `peek`. A batch is a range of numbers in every fragment, so a replay
reads the same messages again. With a cursor the bus keeps what has not been read, even after others
have settled it, and the cursor follows completed batches. A peek has no cursor: what others receive
meanwhile is missed. A fragment that is down keeps its position.
"""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from pyspark_servicebus.errors import LossAdvice
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.planning import Slice, share_bytes, share_out
from pyspark_servicebus.source.positions import cursor_positions, starting_positions
from pyspark_servicebus.source.reading import Answers, Reading, good, require
from pyspark_servicebus.source.stream_reader import MESSAGES_MAX, StreamReader
from pyspark_servicebus.source.tasks import plan_tasks

FIRST_NUMBER: Final = 1
"""The number of the first message that a fragment ever had."""


class CursorStream(StreamReader):
    """Ranges of numbers, with a named cursor or without."""

    def __init__(
        self,
        options: SourceOptions,
        reading: Reading | None = None,
        advice: LossAdvice = LossAdvice(),  # noqa: B008 - it is immutable
    ) -> None:
        super().__init__(options, reading, advice)
        self._checks = options.fails_on_data_loss and options.mode == "cursor"
        self._placed: dict[int, int] = {}
        self._last: dict[int, int] | None = None
        """Where an availableNow run has to end."""
        self._planned: tuple[Offset, Offset, list[Slice]] | None = None
        """The last planned batch."""

    # --- offsets --------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The position in the options, with a cursor there from now on.

        Called in every run, also in one that continues from a checkpoint: so an existing cursor is
        not moved.
        """
        self.reading.check_filter()
        return self.begin_at(starting_positions(self.reading))

    def begin_at(self, positions: dict[int, int]) -> Offset:
        """The offset of these positions, with a cursor there if there is none yet."""
        if self.options.mode == "cursor":
            standing = cursor_positions(self.reading)
            new = {index: n for index, n in positions.items() if index not in standing}
            require(self._put(new, self.options.retry_s), "cursor")
        return self._offset(positions)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where it has to end."""
        super().prepareForTriggerAvailableNow()
        self._last = self._ends()

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The ends of all fragments: the difference is the lag."""
        return self._offset(self._ends())

    def _offset(self, positions: dict[int, int], messages: dict[int, int] | None = None) -> Offset:
        return SourceOffset(
            entity_id=self.entity_id, positions=positions, messages=messages
        ).as_json()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """The end of the next batch; everything before `start` is done."""
        positions = self._positions(start)
        self._follow(positions)
        slices = []
        for index, plan in self._plan(positions, limit).items():
            first, last = positions[index], plan["end"]
            if plan["earliest"] > first:
                self._complain(index, first, plan["earliest"])
            if plan["count"] and last > first:
                slices.append(Slice(index, first, last, plan["count"], plan["bytes"]))
        if not slices:
            return start
        end = {**positions, **{part.fragment: part.last for part in slices}}
        counts = {part.fragment: part.count for part in slices if part.count >= 0}
        latest = self._offset(end, counts)
        self._planned = (start, latest, slices)
        return latest

    def _positions(self, offset: Offset) -> dict[int, int]:
        """The position in each fragment to be read; a new one starts at its beginning."""
        resumed = self.resume(offset)
        known = (resumed.positions if resumed is not None else None) or {}
        return {**known, **{i: known.get(i, 0) for i in self.reading.fragments()}}

    def _ends(self) -> dict[int, int]:
        """The number that the next message will have, of the fragments that answer."""
        reported = self.reading.ask(
            "status",
            self.reading.fragments(),
            retry_s=self.retry_s,
            sub_queue=self.options.sub_queue,
        )
        return {index: answer["end"] for index, answer in good(reported, "status").items()}

    def _complain(self, index: int, first: int, earliest: int) -> None:
        if self.options.mode == "cursor":
            path = self.reading.entity.path
            self.data_was_lost(
                "RETENTION_EXCEEDED",
                f"Messages {first} to {earliest - 1} of fragment {index} of '{path}' were "
                "discarded before they were read: the retention of the cursor is too small.",
                entity=path,
                fragment=index,
                first=first,
                last=earliest - 1,
            )

    # --- limits ---------------------------------------------------------------------------

    def _plan(self, positions: dict[int, int], limit: ReadLimit) -> Answers:
        """What each fragment contributes to a batch within the limits, of those that answer."""
        messages, byte_count = self.limits(limit)
        backlog = {
            index: min(end, end if self._last is None else self._last.get(index, 0))
            - max(FIRST_NUMBER, positions.get(index, 0))
            for index, end in self._ends().items()
        }
        backlog = {index: count for index, count in backlog.items() if count > 0}
        if self._last is None and not self.is_worth_it(sum(backlog.values())):
            return {}
        shares = share_out(min(messages, MESSAGES_MAX), backlog)
        in_bytes = share_bytes(byte_count, backlog)
        starts = {index: positions[index] for index, share in shares.items() if share}
        limits = {str(i): {"messages": shares[i], "bytes": in_bytes[i]} for i in starts}
        reported = self.reading.ask(
            "plan",
            starts,
            retry_s=self.retry_s,
            sub_queue=self.options.sub_queue,
            limits=limits,
        )
        return {index: self._capped(index, plan) for index, plan in good(reported, "plan").items()}

    def _capped(self, index: int, plan: dict[str, Any]) -> dict[str, Any]:
        """Not beyond the end of this run; how many messages are before it is unknown."""
        last = plan["end"] if self._last is None else self._last[index]
        return plan if plan["end"] <= last else {**plan, "end": last, "count": -1}

    # --- the cursor -----------------------------------------------------------------------

    def _follow(self, positions: dict[int, int]) -> None:
        """Move the cursor, once for each step; a fragment that is down follows later."""
        if self.options.mode != "cursor":
            return
        moved = {i: n for i, n in positions.items() if self._placed.get(i) != n}
        for index in good(self._put(moved), "cursor"):
            self._placed[index] = moved[index]

    def _put(self, positions: dict[int, int], retry_s: float = 0.0) -> Answers:
        return self.reading.ask(
            "cursor.put",
            positions,
            retry_s=retry_s,
            name=self.options.cursor,
            retain_ms=self.options.retention_ms,
            retain_bytes=self.options.retention_bytes,
        )

    # --- tasks ----------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch, planned just now or by an earlier run."""
        if start == end:
            return []
        ticket = {"mode": "range", "sub_queue": self.options.sub_queue}
        if self._planned is not None and self._planned[:2] == (start, end):
            return plan_tasks(self.reading, self._planned[2], ticket)
        planned = self.resume(end)
        if planned is None:
            return []
        first, last = SourceOffset.from_json(start).positions or {}, planned.positions or {}
        counts = planned.messages or {}
        slices = [
            Slice(index, first.get(index, 0), last[index], counts.get(index, -1), 1)
            for index in last
            if last[index] > first.get(index, 0)
        ]
        return plan_tasks(self.reading, slices, ticket)
