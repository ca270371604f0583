"""Claims, as a feature: messages that a pipeline holds until its batch is complete.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from collections.abc import Iterator
from typing import Final

from partibus.fragment.claims import behaviour, changes, commands, records
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
        commands.ClaimMessages: behaviour.claim_messages,
        commands.RenewClaim: behaviour.renew_claim,
        commands.SettleClaim: behaviour.settle_claim,
        commands.ReleaseClaim: behaviour.release_claim,
        commands.ReadClaim: behaviour.read_claim,
        commands.ListClaims: behaviour.list_claims,
    },
    {
        changes.Claiming: (behaviour.claim_taken, behaviour.abort_claim),
        changes.ClaimRenewal: (behaviour.claim_renewed, behaviour.abort_claim),
        changes.ClaimSettlement: (behaviour.claim_settled, behaviour.abort_claim),
        changes.ClaimRelease: (behaviour.claim_released, behaviour.abort_claim),
        changes.ClaimLapse: (behaviour.claim_lapsed, behaviour.abort_lapse),
    },
    on_tick=behaviour.lapse_claims,
    deadlines=deadlines,
    shift=shift,
    replays=dict.fromkeys(records.KINDS, records.replay_claim),
    sections=(SnapshotSection(CLAIMS_SECTION, records.load_claims, records.dump_claims),),
    bodies=bodies,
)
