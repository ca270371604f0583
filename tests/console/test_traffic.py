"""Connections and events: who is there, who is slow, what happened and why."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError
from playwright.sync_api import expect

from console.conftest import dead_letter, received, send
from console.screen import Screen
from support.server import ServerProcess


def refused(server: ServerProcess) -> None:
    """A client comes with a key that is not the policy's."""
    wrong = server.connection_string.replace("SharedAccessKey=", "SharedAccessKey=not")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ServiceBusError),
        client.get_queue_sender("archive") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))


def test_a_connection_is_seen_understood_and_closed(
    screen: Screen, server: ServerProcess, bus: ServiceBusClient
) -> None:
    page = screen.page
    send(bus, "archive", [ServiceBusMessage(f"a{n}") for n in range(3)])
    connect = ServiceBusClient.from_connection_string
    with (
        connect(server.connection_string) as client,
        client.get_queue_receiver("archive", prefetch_count=0) as receiver,
    ):
        held = received(receiver, 3)
        screen.open("connections?entity=archive")
        screen.title("Connections")
        row = page.get_by_role("row").filter(has_text="slow at archive")
        expect(row).to_contain_text("RootManageSharedAccessKey")
        row.get_by_role("button", expanded=False).click()
        link = page.get_by_role("row").filter(has_text="receiver").last
        expect(link).to_contain_text("archive")
        screen.cli("partibus connection list --entity archive")
        for message in held:
            receiver.complete_message(message)  # type: ignore[arg-type]
        expect(page.get_by_text("slow at archive")).to_have_count(0)
        shown = page.locator("[data-connections]")
        before = int(shown.get_attribute("data-connections") or 0)
        row = page.get_by_role("row").filter(has=page.get_by_role("button", expanded=True))
        screen.button("Close", row).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Reason").fill("moving house")
        expect(dialog.locator("[data-cli]")).to_contain_text("--reason 'moving house'")
        screen.button("Close it", dialog).click()
        expect(shown).to_have_attribute("data-connections", str(before - 1))


def test_events_come_as_they_happen(
    screen: Screen, server: ServerProcess, bus: ServiceBusClient
) -> None:
    page = screen.page
    screen.open("events")
    screen.title("Events")
    expect(page.locator("[data-events]")).to_be_visible()
    refused(server)
    row = page.get_by_role("row").filter(has_text="refused").first
    expect(row).to_contain_text("signature")
    expect(row).to_contain_text("amqp:unauthorized-access")
    expect(row).to_contain_text("tracking_id=")
    send(bus, "archive", [ServiceBusMessage("bad")])
    dead_letter(bus, "archive", 1, "Broken", "it was broken")
    row = page.get_by_role("row").filter(has_text="dead-lettered").first
    expect(row).to_contain_text("entity=archive")
    page.get_by_label("Filter").fill("nothing is like this")
    screen.rows("events", 0)


def test_what_happened_before_is_there_too(screen: Screen, server: ServerProcess) -> None:
    """Who looks for a reason looks after it has happened."""
    refused(server)
    page = screen.page
    screen.open("events")
    page.get_by_label("Filter").fill("refused")
    expect(page.get_by_role("row").filter(has_text="token refused").first).to_be_visible()
    screen.cli("partibus events --last 200")
