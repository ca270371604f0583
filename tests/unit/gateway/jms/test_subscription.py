"""Which subscription an attach of a JMS consumer means."""

import pytest

from partibus.amqp.link import Link
from partibus.amqp.terminus import Source
from partibus.domain.errors import BusError
from partibus.domain.limits import SELFHOST
from partibus.domain.names import admit_subscription_name
from partibus.gateway.jms.subscription import durable_name, is_subscriber, subscription_of
from partibus.testing.bus import BusBench

pytestmark = pytest.mark.rule("JMS-3")


def link(name: str) -> Link:
    """A link as the bus sees it; the container id of its peer is `client`."""
    bus = BusBench()
    bus.queue("q")
    client = bus.client()
    client.attach("q", sends=False, name=name)
    ((attached, _),) = client.connection.links
    return attached


def source(*capabilities: str, durable: int = 0) -> Source:
    return Source("t", durable, False, {}, ["topic", *capabilities])


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("news", source(durable=2), "news$client$D"),
        ("news", source("shared", durable=2), "news$client$D"),
        ("news|2", source("shared", durable=2), "news$client$D"),
        ("news|global", source("shared", "global", durable=2), "news$$D"),
        ("news|global2", source("shared", "global", durable=2), "news$$D"),
        ("news|volatile1", source("shared"), "news$client$ND"),
        ("news|global-volatile3", source("shared", "global"), "news$$ND"),
    ],
)
def test_the_name_says_whose_it_is_and_how_long_it_lives(
    name: str, asked: Source, expected: str
) -> None:
    subscription = subscription_of(link(name), asked)
    assert subscription.name == expected
    assert subscription.is_durable == expected.endswith("$D")
    admit_subscription_name(subscription.name, SELFHOST)


@pytest.mark.rule("JMS-2")
def test_a_consumer_without_durability_and_sharing_has_one_of_its_own() -> None:
    first, second = (subscription_of(link("same"), source()) for _ in range(2))
    assert first.name != second.name and not first.is_durable and not first.is_shared
    admit_subscription_name(first.name, SELFHOST)


@pytest.mark.rule("JMS-4")
def test_a_durable_subscription_by_its_link_s_name_alone() -> None:
    assert durable_name(link("news")) == "news$client$D"
    assert durable_name(link("news|global")) == "news$$D"


def test_only_a_topic_s_capability_makes_a_subscriber() -> None:
    assert is_subscriber(source())
    assert is_subscriber(Source("t", 0, False, {}, ["temporary-topic"]))
    assert not is_subscriber(Source("t", 0, False, {}, ["queue"]))
    assert not is_subscriber(None)


@pytest.mark.parametrize(
    "name",
    [
        "a$b",
        "a$b$X",
        "$b$D",
        "a b$$D",
        "a$b c$D",
        "a$b$D$D",
        "a" * 51 + "$$D",
        "a$" + "c" * 51 + "$D",
    ],
)
def test_names_of_another_form_are_refused(name: str) -> None:
    with pytest.raises(BusError):
        admit_subscription_name(name, SELFHOST)
