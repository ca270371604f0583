"""The list of entities and the parts of an entity's page, each by its link."""

from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import expect

from console.conftest import send
from console.screen import Screen


def test_the_list_is_filtered_sorted_and_linked(screen: Screen) -> None:
    page = screen.page
    screen.open("entities?kind=topic")
    screen.rows("entities", 1)
    screen.open("entities?filter=ord")
    screen.rows("entities", 1)
    screen.open("entities")
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.get_by_role("button", name="waiting").click()
    expect(page).to_have_url(f"{screen.base}/console/#/entities?sort=active")
    screen.cli("partibus entity list")


def test_an_entity_is_made_changed_and_deleted(screen: Screen, pictures: Path | None) -> None:
    page = screen.page
    screen.open("entities")
    screen.button("New entity").click()
    dialog = page.get_by_role("dialog", name="New entity")
    dialog.get_by_label("Name").fill("fresh")
    dialog.get_by_label("partitioned").check()
    screen.cli("partibus queue create fresh --partitioned")
    screen.button("Create", dialog).click()
    screen.title("fresh")
    screen.open("entity/fresh/settings")
    page.get_by_label("max_delivery_count").fill("3")
    screen.cli("partibus queue update fresh --max-delivery-count 3")
    if pictures is not None:
        page.screenshot(path=pictures / "settings.png")
    page.get_by_role("button", name="Save 1 changes").click()
    expect(page.get_by_role("status")).to_contain_text("Saved")
    twin = page.request.get(f"{screen.base}/$partibus/entities/fresh").json()
    assert twin["properties"]["max_delivery_count"] == 3
    page.get_by_role("button", name="Delete this queue").click()
    confirming = page.get_by_role("dialog", name="Delete fresh")
    expect(screen.button("Delete", confirming)).to_be_disabled()
    confirming.get_by_label("Type its name").fill("fresh")
    screen.button("Delete", confirming).click()
    screen.title("Entities")
    expect(page.get_by_role("link", name="fresh", exact=True)).to_have_count(0)


def test_a_partitioned_entity_is_drawn(screen: Screen, bus: ServiceBusClient) -> None:
    send(bus, "payments", [ServiceBusMessage(f"p{n}", partition_key=str(n % 7)) for n in range(90)])
    screen.open("entity/payments/fragments")
    expect(screen.page.locator("[data-fragment]")).to_have_count(16)
    expect(screen.page.locator(".store[data-store]")).to_have_count(4)
    expect(screen.page.get_by_text("skew: fullest over mean")).to_be_visible()
    screen.open("entity/payments/charts")
    expect(
        screen.page.get_by_role("img", name="Waiting messages and dead letters of payments")
    ).to_be_visible()


def test_sessions_show_their_state(screen: Screen, bus: ServiceBusClient) -> None:
    send(bus, "baskets", [ServiceBusMessage("apple", session_id="anna")])
    with bus.get_queue_receiver("baskets", session_id="anna") as receiver:
        receiver.session.set_state(b'{"items": 1}')
    screen.open("entity/baskets/sessions")
    screen.rows("sessions", 1)
    screen.cli("partibus session list baskets")
    screen.page.get_by_role("button", name="Show").click()
    expect(screen.page.get_by_role("region", name="Body")).to_contain_text('"items": 1')
    screen.page.get_by_role("link", name="anna").click()
    screen.rows("messages", 1)


def test_a_message_is_tested_against_the_live_rules(screen: Screen, pictures: Path | None) -> None:
    page = screen.page
    screen.open("entity/news/rules")
    page.get_by_label("Name of property 1").fill("amount")
    page.get_by_label("Type of property 1").select_option("number")
    page.get_by_label("Value of property 1").fill("20")
    screen.button("Test this message").click()
    reaches = page.locator("[data-reaches]")
    large = reaches.get_by_role("row").filter(has_text="news/Subscriptions/large")
    expect(large).to_contain_text("no")
    expect(large).to_contain_text("amount is 20")
    page.get_by_label("Value of property 1").fill("2000")
    screen.button("Test this message").click()
    expect(large).to_contain_text("yes")
    if pictures is not None:
        page.screenshot(path=pictures / "rules.png", full_page=True)
    screen.open("entity/news%2FSubscriptions%2Flarge/rules")
    expect(page.locator("[data-rules='1']")).to_contain_text("amount > 1000")


def test_policies_are_added_and_removed(screen: Screen) -> None:
    page = screen.page
    screen.open("entity/archive/access")
    page.get_by_label("New policy").fill("Reader")
    page.get_by_label("Send", exact=True).uncheck()
    page.get_by_label("Listen", exact=True).check()
    screen.cli("partibus policy create Reader --entity archive --rights Listen")
    screen.button("Add").click()
    row = page.get_by_role("row").filter(has_text="Reader")
    expect(row).to_contain_text("Listen")
    screen.button("Show the key", row).click()
    expect(row).to_contain_text("SharedAccessKeyName=Reader")
    screen.button("Delete", row).click()
    expect(row).to_have_count(0)


def test_no_pipeline_is_no_error(screen: Screen) -> None:
    screen.open("pipelines")
    screen.rows("pipelines", 0)
    screen.open("entity/orders/pipelines")
    expect(screen.page.get_by_text("No pipeline reads or writes orders in bulk")).to_be_visible()


def test_who_is_connected(screen: Screen, bus: ServiceBusClient) -> None:
    """Where the server lists its connections; one that does not says so."""
    with bus.get_queue_receiver("archive"):
        screen.open("connections")
        screen.title("Connections")
        told = screen.page.locator("[data-connections]").or_(
            screen.page.get_by_text("This server does not list its connections.")
        )
        expect(told).to_be_visible()
