"""Topics through Qpid JMS: subscriptions of every kind, and selectors."""

import pytest

from conformance.jms.conftest import JavaHost

pytestmark = pytest.mark.group("jms")


@pytest.mark.rule("JMS-2")
def test_subscribers_that_are_there_get_copies(java: JavaHost, url: str, topic: str) -> None:
    assert java.run("TopicProgram", url, topic) == ["first: news", "second: news", "left: null"]


@pytest.mark.rule("JMS-3", "JMS-4")
def test_a_durable_subscription(java: JavaHost, url: str, topic: str) -> None:
    assert java.run("DurableSubscription", url, topic) == [
        "left: null",
        "while away 1",
        "while away 2",
        "left: null",
        "no such subscription",
        "left: null",
    ]


@pytest.mark.rule("JMS-3")
def test_shared_subscriptions(java: JavaHost, url: str, topic: str) -> None:
    assert java.run("SharedSubscriptions", url, topic) == [
        "volatile: 10 once each, left: null",
        "durable: 10 once each, left: null",
        "kept: later",
    ]


@pytest.mark.rule("JMS-5")
def test_selectors(java: JavaHost, url: str, topic: str) -> None:
    assert java.run("SelectorProgram", url, topic) == [
        "color = 'red' -> red",
        "color IN ('red', 'blue') AND size NOT BETWEEN 5 AND 15 -> blue",
        "JMSType = 'urgent' OR size > 25L -> red blue",
        "name LIKE 'it''s _%' AND weight * 2 >= 1.5 -> blue",
        "missing IS NULL AND color <> 'green' -> red blue",
        "flag = TRUE -> green",
        "color > 5 ->",
        "refused",
    ]
