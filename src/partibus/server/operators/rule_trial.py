"""A message tried on the live rules of a topic or a subscription; nothing is sent.

Owns the conversion of a message in JSON to the view that rules have of it. `rules.reach` decides
which subscriptions it reaches and why. Called by the administration.
"""

from partibus.client.messages.json_form import message_from_json
from partibus.cluster.control_hub import Payload
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import path_key, subscription_path
from partibus.domain.entity import EntityKind, SubscriptionSpec
from partibus.domain.errors import InvalidOperation
from partibus.message.envelope import to_stored
from partibus.message.view import StoredView
from partibus.rules.reach import reach_json, reach_of


def tried(catalog: Catalog, record: EntityRecord, message: Payload, now_ms: int) -> Payload:
    """Which subscriptions the message would reach: one subscription, or all of a topic."""
    view = StoredView(to_stored(message_from_json(message, "the message").encode()).body, 1, now_ms)
    reaches = [
        reach_json(reach_of(found.path, found.spec, view))
        for found in _subscriptions(catalog, record)
        if isinstance(found.spec, SubscriptionSpec)
    ]
    return {"name": record.path, "subscriptions": reaches}


def _subscriptions(catalog: Catalog, record: EntityRecord) -> list[EntityRecord]:
    if record.kind is EntityKind.SUBSCRIPTION:
        return [record]
    if record.kind is EntityKind.QUEUE:
        raise InvalidOperation(f"'{record.path}' is a queue; rules belong to subscriptions.")
    start = path_key(subscription_path(record.path, ""))
    found = catalog.entities(EntityKind.SUBSCRIPTION)
    return [one for one in found if path_key(one.path).startswith(start)]
