"""The link of a JMS consumer: its unsettled messages wait again when it ends.

Owns that difference from other receiving links, whose locks outlive them (LCK-7): a JMS client
prefetches, and expects that messages its consumer never saw go to the next one (JMS-10).
"""

from typing import Final

from partibus.amqp.terminus import Source as SourceTerminus
from partibus.fragment.commands import Outcome
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.source import Source, lock_of

QUEUE_CAPABILITIES: Final = ("queue", "temporary-queue")


class ConsumerLink(OutboundLink):
    """One JMS consumer."""

    __slots__ = ()

    def closed(self) -> None:
        """The link is gone: release what was not settled, without counting (DLV-5)."""
        super().closed()
        link = self._link
        unsettled = link.session.outgoing.unsettled.values()
        left = link.left_unsettled or [d for d in unsettled if d.link is link]
        groups: dict[Source, list[int]] = {}
        for delivery in left:
            lock = lock_of(delivery)
            groups.setdefault(lock.source, []).append(lock.token)
        for source, tokens in groups.items():
            source.settle(None, tokens, Outcome.RELEASE, None)


def is_queue_consumer(source: SourceTerminus) -> bool:
    """Whether an attach to a queue is that of a JMS consumer."""
    return any(capability in QUEUE_CAPABILITIES for capability in source.capabilities)
