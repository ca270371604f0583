"""What the machine lets out about stages.

Owns the answers to commands about stages that have a form of their own, each a call of the port
that the command named. Made by `staging`, carried out by the broker when what they tell is durable.
"""

from partibus.domain.errors import BusError
from partibus.fragment.effects import Effect
from partibus.fragment.stages.commands import PublishPort, WritersPort, WriterSummary


class StagesPublished(Effect):
    """A batch is on its way, or was before."""

    __slots__ = ("count", "is_repeated", "port")

    def __init__(self, port: PublishPort, count: int, is_repeated: bool) -> None:
        self.port = port
        self.count = count
        self.is_repeated = is_repeated

    def carry_out(self) -> None:
        self.port.published(self.count, self.is_repeated)


class PublishFailed(Effect):
    """Nothing was published."""

    __slots__ = ("error", "port")

    def __init__(self, port: PublishPort, error: BusError) -> None:
        self.port = port
        self.error = error

    def carry_out(self) -> None:
        self.port.failed(self.error)


class WritersListed(Effect):
    """Every writer with its stages."""

    __slots__ = ("port", "writers")

    def __init__(self, port: WritersPort, writers: list[WriterSummary]) -> None:
        self.port = port
        self.writers = writers

    def carry_out(self) -> None:
        self.port.writers_listed(self.writers)
