"""The conformance tests that are not for a cluster, each with the reason.

Owns the list that `make test-cluster` leaves out and prints at its end. A test is here only when it
is about something that one machine alone has: what its directory holds, how its workers share it,
or a mode that is refused together with `--cluster`. What a client sees is never a reason.
"""

from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parent

WORKERS: Final = "it expects the workers of one machine, and kills them by their numbers"
NUMBERS: Final = "it expects the numbers of one machine's workers"
REFUSED_START: Final = "it starts a server by itself on the data directory, which is to refuse"

LEFT_OUT: Final = {
    "access/test_http.py::test_json_surface[Manage-on-the-namespace]": (
        "it lists what one machine answers to backups and to operations on nodes"
    ),
    "bulk/test_protocol.py::test_each_fragment_is_where_the_server_says": NUMBERS,
    "bulk/test_protocol.py::test_a_worker_that_was_killed": "it kills a worker by its number",
    "bulk/test_stages.py::test_a_worker_is_killed": "it kills a worker by its number",
    "emulator/test_tools.py": "--emulator replaces the vendor's container, which is one server",
    "kit/": "the kit for test suites is a server in memory, with a time of its own",
    "live/test_partitions.py": "it asks which worker has which partition",
    "partitioning/test_creation.py::test_a_message_is_in_the_directory_of_its_store": (
        "it reads the files of a store"
    ),
    "partitioning/test_creation.py::test_the_quota_counts_what_was_created": REFUSED_START,
    "partitioning/test_creation.py::test_what_was_created_stays": REFUSED_START,
    "partitioning/test_workers.py::test_a_killed_worker_comes_back": WORKERS,
    "partitioning/test_workers.py::test_a_receiver_on_the_other_worker": WORKERS,
    "partitioning/test_workers.py::test_meanwhile_the_availability": WORKERS,
    "partitioning/test_workers.py::test_partitions_are_spread_evenly": WORKERS,
    "partitioning/test_workers.py::test_sends_that_were_with_the_killed_worker": WORKERS,
    "partitioning/test_workers.py::test_with_traffic_running": WORKERS,
    "rest/test_refusals.py::test_clients_read_the_number_of_a_store": (
        "the place of a store is a directory, which the log names"
    ),
    "signals/test_health.py::test_all_is_well": NUMBERS,
    "signals/test_log.py::test_the_level_changes": NUMBERS,
    "signals/test_opentelemetry.py::test_the_metrics_are_those_of_a_scrape": NUMBERS,
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
