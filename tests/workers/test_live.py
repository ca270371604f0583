"""Changes of the namespace while a worker is lost, and what it knows when it is back."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin, Refused
from support.workers import STORES, WORKERS, WorkersServer

VICTIM = 1


def store_of(admin: JsonAdmin, name: str) -> int:
    (fragment,) = admin.get(name)["fragments"]
    return int(fragment["store"])


def try_until_done(change: object) -> None:
    """A change that is refused only for as long as a store is not there."""

    def is_done() -> bool:
        try:
            change()  # type: ignore[operator]
        except (Refused, ConnectionError) as refused:
            assert isinstance(refused, ConnectionError) or refused.retryable, refused
            return False
        return True

    wait_until(is_done, "the change was made")


@pytest.mark.rule("PAV-5", "SEED-60")
def test_a_lost_worker_keeps_its_entities_from_being_changed_and_hears_of_the_others(
    server: WorkersServer,
) -> None:
    admin = JsonAdmin(server)
    names = [f"live-{number}" for number in range(STORES)]
    for name in names:
        admin.create(name)
    by_store = {store_of(admin, name): name for name in names}
    near = by_store[next(store for store in by_store if store % WORKERS != VICTIM)]
    far = by_store[next(store for store in by_store if store % WORKERS == VICTIM)]
    client = ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=1, retry_backoff_factor=0.1
    )
    with client:
        for name in (near, far):
            with client.get_queue_sender(name) as sender:
                sender.send_messages(ServiceBusMessage("old"))
        offset = server.kill_worker(VICTIM)
        # It may be back before the requests are: what is refused is so for that time only.
        try_until_done(lambda: admin.delete(near))
        try_until_done(lambda: admin.create(near))
        try_until_done(lambda: admin.delete(far))
        try_until_done(lambda: admin.create(far))
        server.wait_worker(VICTIM, offset)
        wait_until(lambda: admin.get(far)["availability"] == "Available", "all is served")
        for name in (near, far):
            for _ in range(3):
                with client.get_queue_sender(name) as sender:
                    sender.send_messages(ServiceBusMessage("new"))
            assert admin.get(name)["totals"]["active"] == 3
            admin.delete(name)
            late = ServiceBusMessage("late")
            with (
                pytest.raises(MessagingEntityNotFoundError),
                client.get_queue_sender(name) as sender,
            ):
                sender.send_messages(late)
