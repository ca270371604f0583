"""The Celery application that worker and test share; its settings come from the environment."""

import os
import time

from celery import Celery, Task

app = Celery("errands")
app.conf.update(
    broker_url=os.environ["ERRANDS_BROKER"],
    broker_transport="partibus.integrations.kombu:Transport",
    broker_transport_options={"wait_time_seconds": 1, "peek_lock_seconds": 60},
    result_backend=f"file://{os.environ['ERRANDS_RESULTS']}",
    broker_connection_retry_on_startup=False,
    # The transport has no fanout, by which workers talk among themselves.
    worker_enable_remote_control=False,
    task_acks_late=True,
)


@app.task
def add(left: int, right: int) -> int:
    return left + right


@app.task(bind=True, max_retries=5)
def stubborn(self: Task, failures: int) -> int:
    """Fails so many times before it answers with the number of its attempt."""
    if self.request.retries < failures:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task
def moment() -> float:
    return time.time()


@app.task
def broken() -> None:
    raise ValueError("on purpose")
