"""Every behaviour by its name, as plans draw them.

Owns only the table: a new behaviour is a class with its own `kind`, listed here, and an entry in
`plan.CLIENTS` if plans should draw it.
"""

from partibus.simulation.clients import receiving, sending
from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.cursors import CursorClient
from partibus.simulation.clients.in_sessions import CompetingSessionClient, SessionClient
from partibus.simulation.clients.moving import FeedingClient, MovingClient
from partibus.simulation.clients.pipelines import (
    ClaimFeedingClient,
    ClaimingClient,
    StagingClient,
)

KINDS: dict[str, type[SimulatedClient]] = {
    kind.kind: kind
    for kind in (
        sending.SendingClient,
        sending.PublishingClient,
        sending.ForwardedClient,
        sending.BatchingClient,
        sending.SessionSendingClient,
        sending.RepeatingClient,
        sending.SchedulingClient,
        MovingClient,
        FeedingClient,
        StagingClient,
        ClaimingClient,
        ClaimFeedingClient,
        receiving.ReceivingClient,
        receiving.TokenClient,
        receiving.DeletingClient,
        sending.LossyClient,
        sending.ExpiringClient,
        receiving.SlowClient,
        receiving.DeferringClient,
        SessionClient,
        CompetingSessionClient,
        CursorClient,
    )
}
