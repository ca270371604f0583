"""Every behaviour by its name, as plans draw them.

Owns only the table: a new behaviour is a class with its own `kind`, listed here, and an entry in
`plan.CLIENTS` if plans should draw it.
"""

from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.cursors import CursorClient
from partibus.simulation.clients.in_sessions import CompetingSessionClient, SessionClient
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
    ExpiringClient,
    ForwardedClient,
    LossyClient,
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
        LossyClient,
        ExpiringClient,
        SlowClient,
        DeferringClient,
        SessionClient,
        CompetingSessionClient,
        CursorClient,
    )
}
