"""A server with two workers, asked over its bulk path by a bare Flight client.

The fixture `server` stands in for the one of the folder above. Nothing here can be imported
without Arrow.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.groups import absent_groups
from support.server import ServerProcess

collect_ignore_glob = ["test_*.py"] if "flight" in absent_groups() else []

QUEUES: Final = 40
NAMESPACE: Final = """
[[policy]]
name = "NamespaceListen"
key = "namespace-listen-key"
rights = ["Listen"]

[[policy]]
name = "NamespaceSend"
key = "namespace-send-key"
rights = ["Send"]

[[queue]]
name = "guarded"

[[queue.policy]]
name = "QueueListen"
key = "queue-listen-key"
rights = ["Listen"]

[[topic]]
name = "news"
enable_partitioning = true
partition_count = 4

[[topic.subscription]]
name = "all"

[[topic.subscription]]
name = "loud"

[[topic.subscription.rule]]
name = "loud"
sql_filter = "sys.Label = 'loud'"

[[queue]]
name = "disabled"
status = "Disabled"
"""


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("bulk")
    parted = [
        f'[[queue]]\nname = "parted-{n}"\nenable_partitioning = true\npartition_count = 4\n'
        for n in range(QUEUES)
    ]
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE + "\n".join(parted), encoding="utf-8")
    flags = ("--stores", "4", "--workers", "2", "--faults")
    with ServerProcess(directory, config, *flags) as process:
        yield process
