"""Every behaviour by its name, as plans draw them.

Owns the table alone: a new behaviour is a class with a `kind` of its own, listed here, and a word
in `plan.CLIENTS` when it is to be drawn.
"""

from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.cursors import CursorClient
from partibus.simulation.clients.in_sessions import SessionClient, SessionRival
from partibus.simulation.clients.moving import FeedingClient, MovingClient
from partibus.simulation.clients.pipelines import (
    ClaimFeedingClient,
    ClaimingClient,
    StagingClient,
)
from partibus.simulation.clients.receiving import (
    DeferringClient,
    DeletingClient,
    ReceivingClient,
    SlowClient,
    TokenClient,
)
from partibus.simulation.clients.sending import (
    BatchingClient,
    FleetingClient,
    ForwardedClient,
    MortalClient,
    PublishingClient,
    RepeatingClient,
    SchedulingClient,
    SendingClient,
    SessionSendingClient,
)

KINDS: dict[str, type[SimulatedClient]] = {
    kind.kind: kind
    for kind in (
        SendingClient,
        PublishingClient,
        ForwardedClient,
        BatchingClient,
        SessionSendingClient,
        RepeatingClient,
        SchedulingClient,
        MovingClient,
        FeedingClient,
        StagingClient,
        ClaimingClient,
        ClaimFeedingClient,
        ReceivingClient,
        TokenClient,
        DeletingClient,
        FleetingClient,
        MortalClient,
        SlowClient,
        DeferringClient,
        SessionClient,
        SessionRival,
        CursorClient,
    )
}
