"""`partibus connection`: who is connected, and the end of one."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from cli.command import Partibus


def test_list_show_and_close(
    partibus: Partibus, client: ServiceBusClient, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        (shown,) = partibus("connection", "list", "--entity", queue, "--json").json["connections"]
        listed = partibus("connection", "list", "--entity", queue).out
        assert shown["id"] in listed
        assert "azsdk-python-servicebus" in listed
        assert "RootManageSharedAccessKey" in listed
        detail = partibus("connection", "show", shown["id"]).out
        (row,) = [line.split() for line in detail.splitlines() if line.startswith("sender")]
        assert row[1] == queue
        assert row[-2] == "2"
        partibus("connection", "close", shown["id"], "--reason", "enough")
        with pytest.raises(ServiceBusError):
            sender.send_messages(ServiceBusMessage("c"))
        assert "enough" in caplog.text
    gone = partibus.try_("connection", "close", shown["id"])
    assert gone.code == 4
    assert "There is no connection" in gone.err
