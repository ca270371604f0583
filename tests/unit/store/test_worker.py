"""The thread for what may take long."""

import logging
import threading

import pytest

from partibus.store.worker import Worker


def test_jobs_run_in_order_on_another_thread() -> None:
    worker = Worker("test-worker")
    ran: list[tuple[int, str]] = []
    for number in range(5):
        assert worker.submit(
            lambda number=number: ran.append((number, threading.current_thread().name))
        )
    worker.close()
    assert ran == [(number, "test-worker") for number in range(5)]


def test_a_job_that_raises_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker("test-worker")
    ran: list[int] = []
    with caplog.at_level(logging.ERROR):
        worker.submit(lambda: ran.remove(9))
        worker.submit(lambda: ran.append(1))
        worker.close()
    assert ran == [1]
    assert "test-worker" in caplog.text


def test_a_closed_worker_takes_nothing() -> None:
    worker = Worker("test-worker")
    assert not worker.started
    worker.close()
    assert not worker.submit(lambda: None)
    assert not worker.started
