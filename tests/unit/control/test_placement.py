"""Where the catalog places the fragments of subscriptions: with those of their topics."""

from partibus.control.catalog import Catalog
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec


def test_a_subscription_lies_beside_its_topic() -> None:
    catalog = Catalog(stores=3)
    catalog.create("q", QueueSpec())
    topic = catalog.create("t", TopicSpec(enable_partitioning=True, fragments=4))
    for name in ("a", "b"):
        made = catalog.create(f"t/Subscriptions/{name}", SubscriptionSpec())
        assert [p.store for p in made.fragments] == [p.store for p in topic.fragments]
    assert [p.store for p in topic.fragments] == [1, 2, 0, 1]
