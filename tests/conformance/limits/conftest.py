"""A server whose limits a test can reach, set in the table [limits] of its file.

The fixture `server` has the name of the one one folder up and stands in for it here.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.json_admin import JsonAdmin
from support.server import ServerProcess

CONFIG = """
[limits]
connections_max = 4
links_per_connection_max = 8
tokens_per_connection_max = 3
receives_per_entity_max = 3
peek_messages_max = 5
batch_delete_messages_max = 4
transaction_messages_max = 3
transaction_operations_max = 2
policies_per_level_max = 2
entities_max = 60
subscriptions_per_topic_max = 2
sql_filters_per_topic_max = 3
lock_duration_max = "PT10S"
message_bytes_default = 2048
message_bytes_max = 4096
http_message_bytes_max = 1024
entity_megabytes = [1024, 7]
max_delivery_count_max = 3
auto_delete_on_idle_min = "PT1M"

[[topic]]
name = "topic"

[[topic.subscription]]
name = "one"

[[topic.subscription]]
name = "two"
"""
COUNT = 40


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("limits")
    config = directory / "namespace.toml"
    queues = [f'[[queue]]\nname = "queue-{number}"\n' for number in range(COUNT)]
    config.write_text(CONFIG + "\n".join(queues), encoding="utf-8")
    with ServerProcess(directory, config) as process:
        yield process


@pytest.fixture
def admin(server: ServerProcess) -> JsonAdmin:
    return JsonAdmin(server)


@pytest.fixture(scope="package")
def fresh() -> Callable[[], str]:
    numbers = itertools.count()

    def take() -> str:
        number = next(numbers)
        assert number < COUNT, "declare more queues"
        return f"queue-{number}"

    return take


@pytest.fixture
def queue(fresh: Callable[[], str]) -> str:
    return fresh()
