"""How long clients waited: for the answer to a send, to a settlement, and for a message.

Owns the histograms of one gateway. Links observe them once per batch; nothing here is per message.
"""

from partibus.domain.observing.histogram import Histogram


class Meters:
    """The durations that clients of this process experienced."""

    __slots__ = ("closed", "delivery", "opened", "send", "settlement")

    def __init__(self) -> None:
        self.send = Histogram()
        """From the transfer to its answer; one send per link is measured at a time."""
        self.settlement = Histogram()
        """From a disposition to its answer."""
        self.delivery = Histogram()
        """From the storing of a message to its writing to a receiver: the first of each batch,
        which has waited longest."""
        self.opened = 0
        self.closed = 0
