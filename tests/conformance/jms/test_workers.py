"""JMS on a server of two workers: what one makes for a consumer, the other knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.jms.conftest import JavaHost, jms_url
from support.server import ServerProcess

pytestmark = pytest.mark.group("jms")

NAMESPACE = """
[[queue]]
name = "orders"

[[queue]]
name = "parted"
enable_partitioning = true
partition_count = 4

[[topic]]
name = "news"

[[topic]]
name = "parted-news"
enable_partitioning = true
partition_count = 4
"""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("jms-workers")
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with ServerProcess(directory, config, "--workers", "2", "--stores", "2") as process:
        yield jms_url(process)


@pytest.mark.rule("JMS-3", "JMS-4")
@pytest.mark.parametrize("topic", ["news", "parted-news"])
def test_subscriptions(java: JavaHost, workers: str, topic: str) -> None:
    lines = java.run("DurableSubscription", workers, topic)
    assert sorted(lines[1:3]) == ["while away 1", "while away 2"]
    assert lines[3:] == ["left: null", "no such subscription", "left: null"]
    lines = java.run("SharedSubscriptions", workers, topic)
    assert lines[1:] == ["durable: 10 once each, left: null", "kept: later"]


@pytest.mark.rule("JMS-6")
def test_temporary_destinations(java: JavaHost, workers: str) -> None:
    assert java.run("RequestReply", workers, "orders") == [
        "re: how are you? true",
        "hello",
        "gone",
    ]


@pytest.mark.rule("JMS-5", "JMS-7")
def test_browsers_and_selectors_over_partitions(java: JavaHost, workers: str) -> None:
    assert java.run("BrowserProgram", workers, "parted", "60") == [
        "empty: 0",
        "all: 60",
        "even more: 57",
        "received: 60",
        "after: 0",
    ]
    lines = java.run("QueueSelector", workers, "parted")
    assert sorted(lines[5].split()) == ["m1", "m3", "m5", "m7", "rest"]
    assert lines[6] == "left: null"
