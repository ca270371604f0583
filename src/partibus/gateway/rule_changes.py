"""Changes of rules that clients ask for, one after the other.

Owns the order: a rule is added to or removed from the current rules of the subscription, so that of
two concurrent changes neither undoes the other. Each is answered when every fragment applies it.
Called by the operations of the management node.
"""

from collections.abc import Callable
from dataclasses import replace

from partibus.control.catalog.record import EntityRecord
from partibus.control.live import LiveNamespace
from partibus.domain.entity import RuleSpec, SubscriptionSpec
from partibus.domain.errors import EntityNotFound
from partibus.gateway.entity_orders import EntityOrders, OrderDone

Rules = tuple[RuleSpec, ...]
Edit = Callable[[EntityRecord, Rules], Rules]
"""Returns the new rules of a subscription from its present ones; raises if it cannot."""


class RuleChanges:
    """Rule changes of this process's clients that are not done yet."""

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
        """The server stops: pending changes are not begun."""
        self._orders.close()
