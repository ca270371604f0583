"""How many receivers each entity of this process has (QTA-10).

Owns the counts and the refusal of one too many. A topic counts those of all its subscriptions, an
entity those of its dead letters too. Connections report receivers that come and go; a receiver that
waits for a session counts too.
"""

from collections import Counter
from dataclasses import dataclass, field

from partibus.domain.address import Address, parse_address, path_key
from partibus.domain.errors import ServerBusy
from partibus.gateway.namespace import Namespace


@dataclass(eq=False, slots=True)
class Receivers:
    """The receivers of all connections, by queue and topic."""

    namespace: Namespace
    _counts: Counter[str] = field(init=False, default_factory=Counter)

    def require_room(self, address: Address) -> None:
        """Raise ServerBusy when the entity has the maximum number of receivers."""
        most = self.namespace.profile.receives_per_entity_max
        if self._counts[path_key(address.entity)] >= most:
            raise ServerBusy(
                f"'{address.entity}' has {most} receivers, which is the maximum; wait until one "
                "of them closes, or raise receives_per_entity_max."
            )

    def add(self, path: str) -> None:
        """A receiver was admitted at this path."""
        self._counts[_key(path)] += 1

    def remove(self, path: str) -> None:
        """A receiver has left."""
        key = _key(path)
        self._counts[key] -= 1
        if self._counts[key] <= 0:
            del self._counts[key]


def _key(path: str) -> str:
    return path_key(parse_address(path).entity)
