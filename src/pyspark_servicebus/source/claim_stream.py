"""A stream that consumes: it holds messages, and settles them when its batch is done.

Owns the mode `claim`. For each batch the bus durably holds messages for the owner under a name made
of the number of the batch; tasks read them as often as necessary. A claim is settled when Spark
asks for the next batch, which it does only once this one is in its commit log. A later run of the
same owner takes its claim over and fences it off. A fragment that is down is settled later, and not
claimed from before that; offsets record what is still to be settled.
"""

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from partibus.domain import conditions
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.source.claim_renewal import ClaimRenewal
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.planning import Slice, share_bytes, share_out
from pyspark_servicebus.source.reading import Answers, good
from pyspark_servicebus.source.stream_reader import BYTES_MAX, StreamReader
from pyspark_servicebus.source.tasks import plan_tasks


class ClaimStream(StreamReader):
    """One claim for each batch."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._epoch = 0
        self._held: tuple[str, Answers] = ("", {})
        """The claim of this run, and the answers of its fragments."""
        self._settled: dict[int, str] = {}
        self._left: dict[int, int] | None = None
        """What an availableNow run may still take."""
        self._renewal = ClaimRenewal(self._change, options.claim_ms)

    # --- offsets --------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Nothing is claimed yet."""
        return SourceOffset(entity_id=self.entity_id, batch=0, claim="", messages={}).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note how many messages wait."""
        super().prepareForTriggerAvailableNow()
        self._left = {index: answer["active"] for index, answer in self._status().items()}

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The waiting messages, by fragment."""
        found = self._status()
        waiting = {index: answer["active"] - answer["claimed"] for index, answer in found.items()}
        return SourceOffset(entity_id=self.entity_id, waiting=waiting).as_json()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Settle what is done, and claim messages for the next batch."""
        done = self.resume(start)
        unsettled = self._settle(done) if done is not None else {}
        limits = self._limits(limit, set(unsettled))
        number = SourceOffset.from_json(start).batch or 0
        name = f"batch {number}"
        claimed = good(self._hold(name, limits, self.retry_s), "claim") if limits else {}
        counts = {index: answer["count"] for index, answer in claimed.items() if answer["count"]}
        if not counts:
            return start
        if self._left is not None:
            for index, count in counts.items():
                self._left[index] = max(0, self._left.get(index, 0) - count)
        return SourceOffset(
            entity_id=self.entity_id,
            batch=number + 1,
            claim=name,
            messages=counts,
            unsettled=unsettled,
        ).as_json()

    def _status(self) -> Answers:
        fragments = self.reading.fragments()
        found = self.reading.ask("status", fragments, retry_s=self.retry_s)
        return good(found, "status")

    def _limits(self, limit: ReadLimit, spared: set[int]) -> dict[int, dict[str, int]]:
        messages, byte_count = self.limits(limit)
        found = {
            index: answer
            for index, answer in self._status().items()
            if answer["active"] and answer["available"] and index not in spared
        }
        waiting = {index: answer["active"] for index, answer in found.items()}
        if self._left is not None:
            waiting = {i: min(n, self._left.get(i, 0)) for i, n in waiting.items()}
        elif not self.is_worth_it(sum(a["active"] - a["claimed"] for a in found.values())):
            return {}
        shares = share_out(messages, waiting)
        in_bytes = share_bytes(byte_count, waiting)
        return {
            index: {"messages": share, "bytes": in_bytes[index]}
            for index, share in shares.items()
            if share
        }

    # --- claims ---------------------------------------------------------------------------

    def _change(self, action: str, about: Any, retry_s: float = 0.0, **fields: Any) -> Answers:
        """Request a change of a claim of this run, or the claim itself."""
        self._take_over()
        return self.reading.ask(
            action,
            about,
            retry_s=retry_s,
            owner=self.options.claim_owner,
            epoch=self._epoch,
            **fields,
        )

    def _hold(self, name: str, limits: dict[int, dict[str, int]], retry_s: float = 0) -> Answers:
        """Claim, and renew the claim from now on."""
        with self._renewal.paused():
            answers = self._change(
                "claim", limits, retry_s, start=name, duration_ms=self.options.claim_ms
            )
        held = {i: a for i, a in answers.items() if a["error"] is None and a["count"]}
        self._held = (name, held)
        self._renewal.watch(name, {index: answer["count"] for index, answer in held.items()})
        return answers

    def _settle(self, done: SourceOffset) -> dict[int, str]:
        """Complete a batch that is in the commit log; returns what has to be settled later.

        Called at every trigger, and again after a restart, which is harmless.
        """
        pending = done.held()
        later: dict[int, str] = {}
        for name in sorted(set(pending.values())):
            mine = [i for i, n in pending.items() if n == name and self._settled.get(i) != name]
            later.update(dict.fromkeys(self._settle_claim(name, mine), name))
        return later

    def _settle_claim(self, name: str, indexes: list[int]) -> list[int]:
        """Settle one claim; returns the fragments where that failed."""
        if not indexes:
            return []
        with self._renewal.paused():
            answers = self._change("settle", indexes, self.retry_s, start=name)
        lost = [
            i
            for i in indexes
            if (answers[i]["error"] or {}).get("condition") == conditions.PARTIBUS_CLAIM_LOST
        ]
        if lost:
            owner = self.options.claim_owner
            self.data_was_lost(
                "CLAIM_LAPSED_AFTER_BATCH",
                f"The claim '{name}' of '{owner}' lapsed and messages of it, in fragment "
                f"{lost[0]}, were taken by others, although its batch is done.",
                "Raise claimDuration",
                claim=name,
                owner=owner,
                fragment=lost[0],
            )
        settled = [*good(answers, "settle", but_for=conditions.PARTIBUS_CLAIM_LOST), *lost]
        self._settled.update(dict.fromkeys(settled, name))
        self._renewal.forget(name, settled)
        return [index for index in indexes if index not in settled]

    def _take_over(self) -> None:
        """Number this run above every other of the same owner."""
        if self._epoch:
            return
        retry_s = self.options.retry_s
        fragments = self.reading.fragments()
        found = self.reading.ask("claims", fragments, retry_s=retry_s)
        known = [
            claim["epoch"]
            for answer in good(found, "claims").values()
            for claim in answer["claims"]
            if claim["owner"] == self.options.claim_owner
        ]
        self._epoch = max([0, *known, time.time_ns() // 1_000_000 - 1]) + 1

    def stop(self) -> None:
        """Also end the renewal: a claim that is not settled lapses, or the next run takes it."""
        self._renewal.stop()
        super().stop()

    # --- tasks ----------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch; a claim of an earlier run is taken over first."""
        planned = SourceOffset.from_json(end)
        counts, name = planned.messages or {}, planned.claim or ""
        if start == end or not counts:
            return []
        if self._held[0] != name:
            self.resume(end)
            self._hold_again(name, counts)
        slices = [
            Slice(index, held["first"], held["last"] + 1, held["count"], held["bytes"])
            for index, held in self._held[1].items()
            if index in counts
        ]
        ticket = {"mode": "claim", "owner": self.options.claim_owner, "start": name}
        return plan_tasks(self.reading, slices, ticket)

    def _hold_again(self, name: str, counts: dict[int, int]) -> None:
        """Take over the complete claim of an earlier run; missing messages were taken by others."""
        limits = {i: {"messages": count, "bytes": BYTES_MAX} for i, count in counts.items()}
        answers = self._hold(name, limits, self.options.retry_s)
        held = good(answers, "claim", but_for=conditions.PARTIBUS_CLAIM_LOST)
        down = [index for index in counts if (answers[index]["error"] or {}).get("retryable")]
        if down:
            good({i: {"error": {**answers[i]["error"], "retryable": False}} for i in down}, "claim")
        missing = {i: n for i, n in counts.items() if i not in held or held[i]["count"] != n}
        if missing:
            owner = self.options.claim_owner
            self.data_was_lost(
                "CLAIM_LAPSED",
                f"The claim '{name}' of '{owner}' lapsed and others have taken messages of it, in "
                f"fragment {min(missing)}; they are not read again.",
                "Raise claimDuration",
                claim=name,
                owner=owner,
                fragment=min(missing),
            )
