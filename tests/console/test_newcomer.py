"""Somebody who has read nothing: three questions, answered with what the screen says.

Every step is a link, a button or a field that can be seen; no address is typed. The clock of the
browser is a day ahead, so that what has just happened was yesterday.
"""

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import Browser, expect

from console.conftest import dead_letter, received, root_key, send, watched
from console.screen import Screen
from console.test_traffic import refused
from support.server import ServerProcess

LETTERS = 500


@pytest.fixture
def newcomer(browser: Browser, server: ServerProcess) -> Iterator[Screen]:
    """At the sign-in page, tomorrow."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(30_000)
    page.clock.set_fixed_time(datetime.datetime.now() + datetime.timedelta(days=1))
    errors = watched(page)
    screen = Screen(page, server.ready.http_port)
    page.goto(screen.base)
    screen.sign_in(root_key(server))
    yield screen
    context.close()
    assert not errors


def picture(screen: Screen, pictures: Path | None, name: str) -> None:
    if pictures is not None:
        screen.page.screenshot(path=pictures / f"newcomer-{name}.png")


def test_yesterdays_dead_letters_are_found_explained_fixed_and_resubmitted(
    newcomer: Screen, bus: ServiceBusClient, pictures: Path | None
) -> None:
    page = newcomer.page
    send(bus, "shop", [ServiceBusMessage('{"amount": "ten"}', message_id="odd")])
    dead_letter(bus, "shop", 1, "NotANumber", "amount must be a number")
    send(bus, "shop", [ServiceBusMessage(f"order {n}") for n in range(LETTERS)])
    dead_letter(bus, "shop", LETTERS, "NoStock", "the article is sold out")
    picture(newcomer, pictures, "1-overview")
    page.get_by_role("navigation", name="Pages").get_by_text("Dead letters").click()
    picture(newcomer, pictures, "2-dead-letters")
    page.get_by_role("link", name="shop", exact=True).click()
    newcomer.rows("reasons", 2)
    expect(page.get_by_role("row").filter(has_text="NoStock").first).to_contain_text(
        "the article is sold out"
    )
    page.get_by_label("Enqueued").select_option("yesterday")
    newcomer.rows("messages", 50)
    page.get_by_label("Enqueued").select_option("today")
    newcomer.rows("messages", 0)
    page.get_by_label("Enqueued").select_option("yesterday")
    newcomer.rows("messages", 50)
    picture(newcomer, pictures, "3-yesterday")
    newcomer.button("NotANumber").click()
    newcomer.rows("messages", 1)
    page.locator("[data-message]").click()
    expect(page.get_by_role("dialog")).to_contain_text("amount must be a number")
    picture(newcomer, pictures, "4-message")
    newcomer.button("Edit and resubmit").click()
    text = page.get_by_role("dialog").last.get_by_label("Body", exact=True)
    text.fill(text.input_value().replace('"ten"', "10"))
    picture(newcomer, pictures, "5-edit")
    newcomer.button("Send", page.get_by_role("dialog").last).click()
    newcomer.rows("reasons", 1)
    row = page.get_by_role("row").filter(has_text="NoStock").first
    newcomer.button("Resubmit", row).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=f"Resubmit {LETTERS}").click()
    expect(dialog.locator(f"[data-finished='{LETTERS}']")).to_be_visible(timeout=120_000)
    picture(newcomer, pictures, "6-resubmitted")
    newcomer.button("Done", dialog).click()
    newcomer.rows("reasons", 0)
    picture(newcomer, pictures, "7-none-left")


def test_the_slow_consumer_is_named(
    newcomer: Screen, server: ServerProcess, bus: ServiceBusClient, pictures: Path | None
) -> None:
    page = newcomer.page
    send(bus, "parcels", [ServiceBusMessage(f"p{n}") for n in range(5)])
    connect = ServiceBusClient.from_connection_string
    with (
        connect(server.connection_string, user_agent="sleepy-consumer") as client,
        client.get_queue_receiver("parcels") as receiver,
    ):
        held = received(receiver, 5)
        page.get_by_role("navigation", name="Pages").get_by_text("Connections").click()
        expect(page.get_by_text("slow at parcels").first).to_be_visible()
        picture(newcomer, pictures, "8-slow")
        for message in held:
            receiver.complete_message(message)  # type: ignore[arg-type]


def test_the_reason_of_a_refusal_is_on_the_screen(
    newcomer: Screen, server: ServerProcess, pictures: Path | None
) -> None:
    page = newcomer.page
    refused(server)
    page.get_by_role("navigation", name="Pages").get_by_text("Events").click()
    page.get_by_label("Filter").fill("refused")
    row = page.get_by_role("row").filter(has_text="token refused").first
    expect(row).to_contain_text("signature")
    expect(row).to_contain_text("check the key")
    picture(newcomer, pictures, "9-refused")
