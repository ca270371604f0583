"""The overview: what moves, and a store that goes down and comes back."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import expect

from conformance.partitioning.operator import Operator
from console.conftest import dead_letter, received, send
from console.screen import Screen
from support.server import ServerProcess

SHOWN_WITHIN_MS = 2_000


def test_rates_depths_and_stores_are_live(
    screen: Screen, bus: ServiceBusClient, pictures: Path | None
) -> None:
    screen.open()
    screen.title("Overview")
    page = screen.page
    expect(page.locator("[data-store]")).to_have_count(4)
    expect(page.locator("[data-store][data-state=up]")).to_have_count(4)
    before = int(page.locator("[data-total=active]").inner_text().replace(",", ""))
    send(bus, "orders", [ServiceBusMessage(f"order {n}") for n in range(40)])
    expect(page.locator("[data-total=active]")).to_have_text(str(before + 40))
    expect(page.get_by_role("row").filter(has_text="orders")).to_be_visible()
    screen.cli("partibus store list")
    twin = page.locator("[data-twin]").get_attribute("href")
    assert twin == "/$partibus/stores"
    assert "stores" in page.request.get(screen.base + twin).json()
    if pictures is not None:
        _traffic(bus, lambda: page.screenshot(path=pictures / "overview.png"))


def _traffic(bus: ServiceBusClient, then: Callable[[], object]) -> None:
    """Some seconds of senders and receivers, for a picture worth looking at."""
    end = time.monotonic() + 15
    with (
        bus.get_queue_sender("orders") as orders,
        bus.get_queue_sender("payments") as payments,
        bus.get_queue_receiver("orders", prefetch_count=50) as receiver,
    ):
        while time.monotonic() < end:
            orders.send_messages([ServiceBusMessage("o") for _ in range(20)])
            payments.send_messages([ServiceBusMessage("p") for _ in range(10)])
            for message in received(receiver, 18):
                receiver.complete_message(message)  # type: ignore[arg-type]
        then()
    dead_letter(bus, "payments", 3, "CardExpired", "the card of the payer has expired")


def test_a_store_that_goes_down_shows_with_what_it_took(
    screen: Screen, pictures: Path | None
) -> None:
    """Within two seconds of going down, and the same when it comes back."""
    page = screen.page
    screen.open("faults")
    switch = page.get_by_role("switch", name="Store 1 down")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    screen.cli("partibus fault store 1 down --for 60s")
    screen.open("overview")
    down = page.locator("[data-down='1']")
    expect(down).to_be_visible(timeout=SHOWN_WITHIN_MS + 3_000)
    expect(down).to_contain_text("payments")
    expect(page.locator("[data-store='1']")).to_have_attribute("data-state", "down")
    screen.open("entity/payments/fragments")
    expect(page.locator("[data-fragment][data-state=down]").first).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"\d of 16 fragments are down"))
    if pictures is not None:
        page.screenshot(path=pictures / "fragments-down.png")
    screen.open("faults")
    page.get_by_role("switch", name="Store 1 down").click()
    expect(page.get_by_role("switch", name="Store 1 down")).to_have_attribute(
        "aria-checked", "false"
    )
    screen.open("overview")
    expect(page.locator("[data-store='1']")).to_have_attribute("data-state", "up")
    expect(down).to_have_count(0)


def test_every_page_by_the_keyboard_and_in_both_themes(screen: Screen) -> None:
    page = screen.page
    screen.open()
    for key, title in (
        ("e", "Entities"),
        ("d", "Dead letters"),
        ("c", "Connections"),
        ("v", "Events"),
        ("p", "Pipelines"),
        ("f", "Faults"),
        ("o", "Overview"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        screen.title(title)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")  # light
    page.keyboard.press("t")  # dark
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    screen.title("Overview")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("e")
    screen.title("Entities")
    page.keyboard.press("/")
    page.keyboard.type("pay")
    screen.rows("entities", 1)
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    screen.title("payments")


def test_an_open_overview_follows_a_store_down_and_up(
    screen: Screen, server: ServerProcess, bus: ServiceBusClient
) -> None:
    """Nobody touches the page: it hears of the store, and of what it took, by itself."""
    page, operator = screen.page, Operator(server)
    screen.open()
    expect(page.locator("[data-store='2']")).to_have_attribute("data-state", "up")
    operator.begin_outage(2)
    try:
        # The outage is noticed with the next write; readiness probes write.
        page.request.get(f"{screen.base}/readyz")
        notice = page.locator("[data-down='2']")
        expect(notice).to_be_visible()
        expect(notice).to_contain_text("payments")
        expect(page.locator("[data-store='2']")).to_have_attribute("data-state", "down")
    finally:
        operator.mend_all()
    expect(page.locator("[data-down='2']")).to_have_count(0)
    expect(page.locator("[data-store='2']")).to_have_attribute("data-state", "up")
