"""What the machine lets out about stages.

Owns the answers to commands about stages that have a form of their own, each a call of the port
that the command named. Made by `staging`, carried out by the broker when what they tell is durable.
"""

from dataclasses import dataclass

from partibus.fragment.effects import Effect
from partibus.fragment.stages.commands import PublishPort, WritersPort, WriterSummary


@dataclass(eq=False)
class StagesPublished(Effect):
    """A batch is on its way, or was before."""

    port: PublishPort
    count: int
    is_repeated: bool

    def carry_out(self) -> None:
        self.port.published(self.count, self.is_repeated)


@dataclass(eq=False)
class WritersListed(Effect):
    """Every writer with its stages."""

    port: WritersPort
    writers: list[WriterSummary]

    def carry_out(self) -> None:
        self.port.writers_listed(self.writers)
