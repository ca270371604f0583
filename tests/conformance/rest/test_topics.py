"""Topics and subscriptions over HTTP: send to the one, receive from the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.rest.http_bus import HttpBus
from support.server import ServerProcess

NAMESPACE = """
[[topic]]
name = "news"

[[topic.subscription]]
name = "all"

[[topic.subscription]]
name = "large"

[[topic.subscription.rule]]
name = "size"
sql_filter = "size > 5"
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[HttpBus]:
    config = tmp_path / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with ServerProcess(tmp_path, config) as server:
        yield HttpBus(server.ready.http_port)


@pytest.mark.rule("HTP-1", "HTP-2", "ENT-1")
def test_what_is_sent_to_a_topic_is_received_from_its_subscriptions(bus: HttpBus) -> None:
    assert bus.send("news", b"small", headers={"size": "1"}).status == 201
    assert bus.send("news", b"big", headers={"size": "9"}).status == 201
    locked = bus.lock("news/subscriptions/large")
    assert (locked.status, locked.body) == (201, b"big")
    assert bus.complete(locked) == 200
    taken = [bus.take("news/Subscriptions/all").body for _ in range(2)]
    assert taken == [b"small", b"big"]
    assert bus.take("news/subscriptions/large").status == 204
    assert bus.take("news").status == 400, "a topic holds nothing to receive"
    assert bus.send("news/subscriptions/all", b"no").status == 400
