"""Changes of rules that clients ask for, one after the other.

Owns the order: a rule is added to or removed from what the subscription has at that moment, so
that of two changes asked for together neither undoes the other. Each is answered when every
fragment selects by it. Called by the operations of the management node.
"""

from collections.abc import Callable
from dataclasses import replace

from partibus.control.live import LiveNamespace
from partibus.control.record import EntityRecord
from partibus.domain.entity import RuleSpec, SubscriptionSpec
from partibus.domain.errors import EntityNotFound
from partibus.gateway.entity_orders import EntityOrders, OrderDone

Rules = tuple[RuleSpec, ...]
Edit = Callable[[EntityRecord, Rules], Rules]
"""The rules that a subscription is to have, of those it has; raises what keeps it from them."""


class RuleChanges:
    """What clients of this process have asked for and is not done yet."""

    def __init__(self, live: LiveNamespace, lookup: Callable[[str], EntityRecord | None]) -> None:
        self._lookup = lookup
        self._orders = EntityOrders(live, tries_max=1)

    def ask(self, path: str, edit: Edit, done: OrderDone) -> None:
        """Change the rules of a subscription; `done` is called once, never inside this call."""

        async def change(live: LiveNamespace) -> None:
            record = self._lookup(path)
            if record is None or not isinstance(record.spec, SubscriptionSpec):
                raise EntityNotFound.named(path)
            rules = edit(record, record.spec.rules)
            await live.update(record.path, replace(record.spec, rules=rules))

        self._orders.ask(change, done)

    def close(self) -> None:
        """The server stops: what is not done is not begun."""
        self._orders.close()
