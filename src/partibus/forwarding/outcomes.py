"""What happens to a parcel that cannot be handed over.

Owns the outcomes: which errors are final, and where a parcel goes with which reason. Forward
failures go to the dead letters of the source (FWD-7), or to its transfer dead letters where the
server is configured so (TDQ-3); transfers go to the transfer dead letters, except that a full
destination is waited for (TDQ-2). Pure; called by couriers and their legs.
"""

from dataclasses import dataclass
from typing import Final

from partibus.domain.errors import BusError, QuotaExceeded
from partibus.fragment.commands import SubQueueType
from partibus.fragment.message import Overlay
from partibus.fragment.outbox.state import Purpose
from partibus.message.forwarded import HOPS_MAX


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a message is a dead letter, as its receiver will read it (DLQ-5)."""

    name: str
    description: str

    def overlay(self) -> Overlay:
        """The overlay of the message."""
        return Overlay(reason=self.name, description=self.description)


TOO_MANY_HOPS: Final = Reason(
    "MaxTransferHopCountExceeded",
    f"The maximum number of hops between queues, {HOPS_MAX}, was exceeded.",
)
NO_SESSION: Final = Reason(
    "Session ID is null",
    "An entity that requires sessions does not allow a message without a session id.",
)


def reason_of(error: BusError) -> Reason:
    """The name of an error and its text (DLQ-6)."""
    return Reason(type(error).__name__, error.text)


@dataclass(frozen=True, slots=True)
class ParcelOutcome:
    """Back to a subqueue with a reason, or on to another path."""

    subqueue: SubQueueType = SubQueueType.MAIN
    reason: Reason | None = None
    path: str = ""
    """The new path; empty when it comes back."""


def failure_subqueue(purpose: Purpose, forward_failures: SubQueueType) -> SubQueueType:
    """Where a parcel goes when its delivery has failed for good."""
    if purpose is Purpose.TRANSFER:
        return SubQueueType.TRANSFER_DEAD_LETTER
    return SubQueueType.DEAD_LETTER if purpose is Purpose.DEAD_LETTER else forward_failures


def home_subqueue(purpose: Purpose) -> SubQueueType:
    """Where a parcel waits when its entity no longer forwards."""
    return SubQueueType.DEAD_LETTER if purpose is Purpose.DEAD_LETTER else SubQueueType.MAIN


def waits_for_room(purpose: Purpose, error: BusError) -> bool:
    """Whether to wait after a refusal: the destination of a transfer is full (TDQ-2)."""
    return purpose is Purpose.TRANSFER and isinstance(error, QuotaExceeded)
