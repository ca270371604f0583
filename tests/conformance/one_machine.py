"""The conformance tests that are not for a cluster, each with the reason.

Owns the list that `make test-cluster` leaves out and prints at its end. A test is here only when it
is about something that one machine alone has: what its directory holds, how its workers share it,
or a mode that is refused together with `--cluster`. What a client sees is never a reason.
"""

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent

LEFT_OUT: Final = {
    "bulk/test_protocol.py::test_a_worker_that_was_killed": "it kills a worker by its number",
    "bulk/test_stages.py::test_a_worker_is_killed": "it kills a worker by its number",
    "emulator/test_tools.py": "--emulator replaces the vendor's container, which is one server",
    "kit/": "the kit for test suites is a server in memory, with a time of its own",
    "live/test_partitions.py": "it asks which worker has which partition",
    "partitioning/test_creation.py::test_a_message_is_in_the_directory_of_its_store": (
        "it reads the files of a store"
    ),
    "rest/test_refusals.py::test_clients_read_the_number_of_a_store": (
        "the place of a store is a directory, which the log names"
    ),
    "test_root_key.py": "the command that shows a secret key reads the data directory",
    "topics/test_restart.py::test_a_message_is_stored_once": "it counts the bytes of its files",
}
"""By the beginning of the test's id under this folder."""


def reason(item: pytest.Item) -> str | None:
    """Why a test of this folder is left out; None when it is not."""
    name = item.path.relative_to(HERE).as_posix() + "::" + item.nodeid.partition("::")[2]
    return next((why for start, why in LEFT_OUT.items() if name.startswith(start)), None)


def lines() -> list[str]:
    """What a run says at its end."""
    return [f"not for a cluster: {start}: {why}" for start, why in LEFT_OUT.items()]
