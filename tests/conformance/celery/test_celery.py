"""Celery over Kombu's Service Bus transport: tasks, retries, times, and queues of their own.

Both make their queues through the management API and move messages with the stock client.
"""

import time
from pathlib import Path
from types import ModuleType

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from support.server import ServerProcess

TIMEOUT_SECONDS = 120

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _worker_log(worker: Path, request: pytest.FixtureRequest) -> None:
    """Shown when a test fails."""
    request.addfinalizer(lambda: print(worker.read_text(encoding="utf-8", errors="replace")))


def test_tasks_are_done(errands: ModuleType) -> None:
    results = [errands.add.delay(number, number) for number in range(10)]
    assert [result.get(timeout=TIMEOUT_SECONDS) for result in results] == [
        2 * number for number in range(10)
    ]


def test_a_task_is_tried_again(errands: ModuleType) -> None:
    assert errands.stubborn.delay(3).get(timeout=TIMEOUT_SECONDS) == 3


def test_a_task_waits_for_its_time(errands: ModuleType) -> None:
    sent = time.time()
    assert errands.moment.apply_async(countdown=3).get(timeout=TIMEOUT_SECONDS) >= sent + 3


def test_a_failure_comes_back(errands: ModuleType) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        errands.broken.delay().get(timeout=TIMEOUT_SECONDS)


def test_a_queue_is_made_counted_and_emptied(errands: ModuleType, server: ServerProcess) -> None:
    with errands.app.connection_for_write() as connection:
        queue = connection.SimpleQueue("parcels")
        for number in range(3):
            queue.put({"number": number})
        assert queue.qsize() == 3
        with ServiceBusAdministrationClient.from_connection_string(
            server.connection_string, retry_total=0
        ) as admin:
            assert admin.get_queue("parcels").lock_duration.total_seconds() == 60
        first = queue.get(timeout=TIMEOUT_SECONDS)
        assert first.payload == {"number": 0}
        first.ack()
        assert queue.clear() == 2
        assert queue.qsize() == 0
        queue.close()
