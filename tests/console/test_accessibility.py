"""An audit of every page by axe: nothing serious, in both themes."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import expect

from console.conftest import dead_letter, send
from console.screen import Screen

PLACES = (
    "overview",
    "entities",
    "dead-letters",
    "connections",
    "events",
    "pipelines",
    "faults",
    "entity/desk/messages",
    "entity/desk/messages?message=2",
    "entity/desk/dead-letters",
    "entity/desk/scheduled",
    "entity/baskets/sessions",
    "entity/payments/fragments",
    "entity/payments/charts",
    "entity/payments/settings",
    "entity/doomed/access",
    "entity/news/rules",
    "entity/orders/send",
)


@pytest.fixture(scope="module", autouse=True)
def _messages(bus: ServiceBusClient) -> None:
    send(bus, "desk", [ServiceBusMessage(f"body {n}") for n in range(4)])
    dead_letter(bus, "desk", 1, "NoStock", "sold out")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(screen: Screen, theme: str) -> None:
    page = screen.page
    page.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    axe = Axe()
    found = []
    for place in PLACES:
        screen.open(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        answer = axe.run(page, options={"resultTypes": ["violations"]}).response
        found += [
            (place, violation["id"], violation["nodes"][0]["html"][:160])
            for violation in answer["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
    assert not found
