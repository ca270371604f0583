"""A fragment bench for pipelines: claims, cursors and reads of ranges, answered as values.

Owns the ports that turn each answer into a return value or an exception.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.claims.commands import (
    ClaimMessages,
    ClaimSummary,
    ListClaims,
    ReadClaim,
    ReleaseClaim,
    RenewClaim,
    SettleClaim,
)
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.cursors.commands import (
    CursorSummary,
    DropCursor,
    ListCursors,
    PlaceCursor,
    PlanRange,
    RangePlan,
    ReadRange,
)
from partibus.fragment.message import Held
from partibus.testing.fragment import Delivered, FragmentBench

_MANY = 1 << 40


class Reply:
    """Takes one answer of any kind."""

    def __init__(self) -> None:
        self.claim: ClaimSummary | None = None
        self.claims: list[ClaimSummary] = []
        self.cursor: CursorSummary | None = None
        self.cursors: list[CursorSummary] = []
        self.plan: RangePlan | None = None
        self.messages: list[Delivered] = []
        self.count = -1
        self.error: BusError | None = None

    def claimed(self, summary: ClaimSummary) -> None:
        self.claim = summary

    def claims_listed(self, summaries: list[ClaimSummary]) -> None:
        self.claims = summaries

    def placed(self, cursor: CursorSummary) -> None:
        self.cursor = cursor

    def cursors_listed(self, cursors: list[CursorSummary]) -> None:
        self.cursors = cursors

    def planned(self, plan: RangePlan) -> None:
        self.plan = plan

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.messages = [Delivered(h, b) for h, b in zip(messages, bodies, strict=True)]

    def done(self, count: int) -> None:
        self.count = count

    def failed(self, error: BusError) -> None:
        self.error = error


class BulkBench(FragmentBench):
    """One fragment, asked as pipelines ask."""

    def claim(
        self,
        owner: str,
        start: str,
        count: int,
        *,
        epoch: int = 1,
        byte_count: int = _MANY,
        duration_ms: int = 60_000,
    ) -> ClaimSummary:
        """Hold messages."""
        reply = Reply()
        command = ClaimMessages(reply, owner, epoch, start, count, byte_count, duration_ms)
        claim = self._ask(reply, command).claim
        assert claim is not None
        return claim

    def renew_claim(
        self, owner: str, start: str, *, epoch: int = 1, duration_ms: int = 60_000
    ) -> ClaimSummary:
        """Hold them for longer."""
        reply = Reply()
        claim = self._ask(reply, RenewClaim(reply, owner, epoch, start, duration_ms)).claim
        assert claim is not None
        return claim

    def settle_claim(self, owner: str, start: str, *, epoch: int = 1) -> int:
        """Complete them."""
        reply = Reply()
        return self._ask(reply, SettleClaim(reply, owner, epoch, start)).count

    def release_claim(self, owner: str, *, epoch: int | None = 1, forget: bool = False) -> int:
        """Give them back."""
        reply = Reply()
        return self._ask(reply, ReleaseClaim(reply, owner, epoch, forget)).count

    def read_claim(self, owner: str, start: str, from_sequence: int = 0) -> list[Delivered]:
        """Look at them."""
        reply = Reply()
        command = ReadClaim(reply, owner, start, from_sequence, _MANY, _MANY)
        return self._ask(reply, command).messages

    def claims(self) -> list[ClaimSummary]:
        """Who holds what."""
        reply = Reply()
        return self._ask(reply, ListClaims(reply)).claims

    def place(
        self, name: str, position: int, retain_ms: int = _MANY, retain_bytes: int = _MANY
    ) -> CursorSummary:
        """Put a cursor somewhere."""
        reply = Reply()
        command = PlaceCursor(reply, name, position, retain_ms, retain_bytes)
        cursor = self._ask(reply, command).cursor
        assert cursor is not None
        return cursor

    def drop_cursor(self, name: str) -> int:
        """Forget it."""
        reply = Reply()
        return self._ask(reply, DropCursor(reply, name)).count

    def cursors(self) -> list[CursorSummary]:
        """All of them."""
        reply = Reply()
        return self._ask(reply, ListCursors(reply)).cursors

    def plan(
        self,
        from_sequence: int,
        count: int = _MANY,
        byte_count: int = _MANY,
        subqueue: SubQueueType | None = SubQueueType.MAIN,
    ) -> RangePlan:
        """How far a read would come."""
        reply = Reply()
        plan = self._ask(reply, PlanRange(reply, subqueue, from_sequence, count, byte_count)).plan
        assert plan is not None
        return plan

    def read(
        self,
        from_sequence: int,
        to_sequence: int = _MANY,
        subqueue: SubQueueType | None = SubQueueType.MAIN,
        byte_count: int = _MANY,
    ) -> list[Delivered]:
        """What has arrived in a range."""
        reply = Reply()
        command = ReadRange(reply, subqueue, from_sequence, to_sequence, _MANY, byte_count)
        return self._ask(reply, command).messages

    def _ask(self, reply: Reply, command: Command) -> Reply:
        self.submit(command)
        if reply.error is not None:
            raise reply.error
        return reply
