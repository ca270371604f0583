"""Who is connected, as an operator sees it while stock clients work."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from adversity.waiting import wait_until
from conformance.transports.clients import Way
from support.json_admin import JsonAdmin, Refused
from support.server import ServerProcess


@pytest.fixture
def admin(server: ServerProcess) -> JsonAdmin:
    return JsonAdmin(server)


def at(admin: JsonAdmin, queue: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.ask("GET", f"/connections?entity={queue}")["connections"]
    return found


def link(shown: dict[str, Any], role: str) -> dict[str, Any]:
    (found,) = [link for link in shown["links"] if link["role"] == role]
    return dict(found)


def test_a_sender_and_a_receiver(admin: JsonAdmin, client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(5)])
        held = receiver.receive_messages(2, max_wait_time=30)
        shown = at(admin, queue)
        by_role = {link["role"]: (c, link) for c in shown for link in c["links"]}
        connection, sending = by_role["sender"]
        assert (sending["entity"], sending["messages"]) == (queue, 5)
        assert sending["credit"] > 0
        _, receiving = by_role["receiver"]
        assert receiving["messages"] == receiving["unsettled"] == len(held)
        assert connection["transport"] == "amqp"
        assert connection["state"] == "open"
        assert connection["peer"].startswith("127.0.0.1:")
        assert connection["client"]["product"] == "azsdk-python-servicebus"
        assert connection["client"]["version"]
        assert connection["received"] == 5
        assert {i["policy"] for i in connection["identities"]} == {"RootManageSharedAccessKey"}
        assert "SAS_KEY_VALUE" not in str(shown)
        assert admin.ask("GET", f"/connections/{connection['id']}")["peer"] == connection["peer"]
        for message in held:
            receiver.complete_message(message)
        wait_until(
            lambda: all(link["unsettled"] == 0 for c in at(admin, queue) for link in c["links"]),
            "all is settled",
        )


def test_over_a_websocket(admin: JsonAdmin, server: ServerProcess, queue: str) -> None:
    way = Way("http_port", is_secure=True).to(server)
    with (
        ServiceBusClient.from_connection_string(way.connection_string, **way.options) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("over a websocket"))
        (shown,) = at(admin, queue)
        assert (shown["transport"], shown["secure"]) == ("websocket", True)


def test_a_closed_connection_hears_why(
    admin: JsonAdmin, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_receiver(queue) as receiver:
        assert not receiver.receive_messages(max_wait_time=1)
        (shown,) = at(admin, queue)
        path = f"/connections/{shown['id']}"
        assert admin.ask("DELETE", f"{path}?reason=moving%20house")["closed"] is True
        with pytest.raises(ServiceBusError, match="moving house"):
            receiver.receive_messages(max_wait_time=30)
    with pytest.raises(Refused) as refused:
        admin.ask("DELETE", path)
    assert refused.value.status == 404


def test_pages(admin: JsonAdmin, server: ServerProcess, queue: str) -> None:
    clients = [ServiceBusClient.from_connection_string(server.connection_string) for _ in range(5)]
    try:
        for client in clients:
            client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
        path, seen, totals = f"/connections?entity={queue}&limit=2", [], set()
        answer = admin.ask("GET", path)
        while True:
            seen += [c["id"] for c in answer["connections"]]
            totals.add(answer["total"])
            if answer["next"] is None:
                break
            answer = admin.ask("GET", f"{path}&after={answer['next']}")
    finally:
        for client in clients:
            client.close()
    assert len(seen) == len(set(seen)) == 5
    assert totals == {5}


@pytest.mark.parametrize("asked", ["limit=0", "limit=501", "limit=x", "after=nobody", "after=1-x"])
def test_what_makes_no_sense_is_refused(admin: JsonAdmin, asked: str) -> None:
    with pytest.raises(Refused) as refused:
        admin.ask("GET", f"/connections?{asked}")
    assert refused.value.status == 400
