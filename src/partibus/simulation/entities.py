"""The entities of a simulated namespace: one for each client behaviour.

Owns their properties and the table of where messages sent to each come out. They are created once,
before the first process starts.
"""

from dataclasses import replace

from partibus.control.catalog.catalog import Catalog
from partibus.domain.address import subscription_path
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.simulation.plan import Plan

DELIVERIES_MAX = 10
WINDOW_MS = 6 * 3_600_000
"""Longer than any run, whatever its clocks do: a duplicate is always detected."""
LIFE_MS = 1_000
"""How long a message of `mortal` waits before it is dead-lettered."""
TOPIC = "news"


def make_entities(catalog: Catalog, plan: Plan) -> dict[str, list[str]]:
    """Create them; returns the places where messages come out, by the entity they are sent to."""
    single = QueueSpec(lock_duration_ms=plan.lock_ms, max_delivery_count=DELIVERIES_MAX)
    spread = replace(single, fragments=plan.fragments, enable_partitioning=plan.fragments > 1)
    queues = {
        "plain": spread,
        "single": single,
        "target": spread,
        "hop": replace(spread, forward_to="target"),
        "fleeting": spread,
        "mortal": replace(
            spread,
            default_message_time_to_live_ms=LIFE_MS,
            dead_lettering_on_message_expiration=True,
        ),
        "staged": single,
        "claims-in": spread,
        "moves-in": single,
        "moves-out": single,
        "sessions": replace(spread, requires_session=True),
        "dups": replace(
            spread,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window_ms=WINDOW_MS,
        ),
    }
    for path, spec in queues.items():
        catalog.create(path, spec)
    topic = TopicSpec(fragments=plan.fragments, enable_partitioning=plan.fragments > 1)
    catalog.create(TOPIC, topic)
    subscriptions = [subscription_path(TOPIC, name) for name in ("a", "b")]
    for path in subscriptions:
        subscription = SubscriptionSpec(
            lock_duration_ms=plan.lock_ms, max_delivery_count=DELIVERIES_MAX
        )
        catalog.create(path, subscription)
    places = {path: [path] for path in queues if path != "staged"}
    return {**places, TOPIC: subscriptions, "hop": ["target"]}


def fragments_of(catalog: Catalog) -> dict[str, list[int]]:
    """The ids of the fragments of each entity, in their order."""
    return {
        record.path: [placement.fragment_id for placement in record.fragments]
        for record in catalog.entities()
    }
