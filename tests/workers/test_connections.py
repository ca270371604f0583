"""Connections of all workers, asked of any of them."""

import itertools

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin
from support.workers import WORKERS, WorkersServer


def test_every_worker_knows_the_clients_of_all(shared: WorkersServer) -> None:
    """Which worker a client comes to is the kernel's choice: open until both have some."""
    admin, clients = JsonAdmin(shared), []

    def shown() -> dict[str, int]:
        found = admin.ask("GET", "/connections?entity=plain-5")["connections"]
        return {c["id"]: c["worker"] for c in found}

    try:
        for _ in itertools.count():
            clients.append(ServiceBusClient.from_connection_string(shared.connection_string))
            clients[-1].get_queue_sender("plain-5").send_messages(ServiceBusMessage("x"))
            if set(shown().values()) == set(range(WORKERS)):
                break
        ids = shown()
        assert len(ids) == len(clients)
        # Each question goes to whichever worker takes it; all give the same answer.
        assert all(shown() == ids for _ in range(8))
        for name in ids:
            assert admin.ask("DELETE", f"/connections/{name}")["closed"]
        wait_until(lambda: not shown().keys() & ids.keys(), "those connections are gone")
    finally:
        for client in clients:
            client.close()
