"""Claims, as a feature: messages that a pipeline holds until its batch is complete.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from collections.abc import Iterator
from typing import Final

from partibus.fragment.claims import behaviour, records
from partibus.fragment.claims.changes import (
    Claiming,
    ClaimLapse,
    ClaimRelease,
    ClaimRenewal,
    ClaimSettlement,
)
from partibus.fragment.claims.commands import (
    ClaimMessages,
    ListClaims,
    ReadClaim,
    ReleaseClaim,
    RenewClaim,
    SettleClaim,
)
from partibus.fragment.feature import CLAIMS_SECTION, Feature, SnapshotSection
from partibus.fragment.state import State


def deadlines(state: State) -> list[int | None]:
    """When the next claim lapses."""
    return [] if state.claims is None else [state.claims.next_lapse_ms()]


def shift(state: State, delta_ms: int) -> None:
    """Claims last for an interval."""
    if state.claims is not None:
        state.claims.shift_ms(delta_ms)


def bodies(state: State) -> Iterator[tuple[int, int]]:
    """The messages that claims hold."""
    if state.claims is not None:
        yield from state.claims.bodies()


CLAIMS: Final = Feature(
    {
        ClaimMessages: behaviour.claim_messages,
        RenewClaim: behaviour.renew_claim,
        SettleClaim: behaviour.settle_claim,
        ReleaseClaim: behaviour.release_claim,
        ReadClaim: behaviour.read_claim,
        ListClaims: behaviour.list_claims,
    },
    {
        Claiming: (behaviour.claim_taken, behaviour.abort_claim),
        ClaimRenewal: (behaviour.claim_renewed, behaviour.abort_renewal),
        ClaimSettlement: (behaviour.claim_settled, behaviour.abort_claim_settlement),
        ClaimRelease: (behaviour.claim_released, behaviour.abort_release),
        ClaimLapse: (behaviour.claim_lapsed, behaviour.abort_lapse),
    },
    on_tick=behaviour.lapse_claims,
    deadlines=deadlines,
    shift=shift,
    replays=dict.fromkeys(records.KINDS, records.replay_claim),
    sections=(SnapshotSection(CLAIMS_SECTION, records.load_claims, records.dump_claims),),
    bodies=bodies,
)
