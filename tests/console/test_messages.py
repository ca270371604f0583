"""Messages on the screen: seen, searched, sent, dead-lettered, fixed and resubmitted."""

import datetime
import json
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from playwright.sync_api import expect

from console.conftest import dead_letter, received, send
from console.screen import Screen

SCRIPT = "<script>alert('body')</script><img src=x onerror=alert(1)>"


def test_a_message_is_sent_and_seen(screen: Screen, bus: ServiceBusClient) -> None:
    page = screen.page
    screen.open("entity/archive/send")
    page.get_by_label("Body").fill('{"order": 7}')
    page.get_by_label("Message id").fill("seven")
    page.get_by_label("Name of property 1").fill("region")
    page.get_by_label("Value of property 1").fill("EU")
    screen.cli(
        "partibus send archive '{\"order\": 7}' --message-id seven --content-type "
        "application/json -p region=EU"
    )
    screen.button("Send").click()
    expect(page.get_by_role("status")).to_contain_text("Sent and stored")
    with bus.get_queue_receiver("archive") as receiver:
        (message,) = receiver.receive_messages(1, max_wait_time=30)
        assert (str(message), message.message_id) == ('{"order": 7}', "seven")
        assert message.application_properties == {b"region": b"EU"}
        receiver.complete_message(message)


def test_bodies_are_shown_and_never_run(
    screen: Screen, bus: ServiceBusClient, pictures: Path | None
) -> None:
    """Text, JSON, XML and bytes; a body with scripts is text like any other (`screen` watches)."""
    send(
        bus,
        "hostile",
        [
            ServiceBusMessage(
                SCRIPT, message_id=SCRIPT[:60], subject=SCRIPT, application_properties={"x": SCRIPT}
            ),
            ServiceBusMessage('{"a": {"b": "<b>1</b>"}}', content_type="application/json"),
            ServiceBusMessage("<a><b>text</b></a>", content_type="application/xml"),
            ServiceBusMessage(b"\x00\xff\xfe rest"),
        ],
    )
    page = screen.page
    screen.open("entity/hostile/messages")
    screen.rows("messages", 4)
    expected = (
        "<script>alert('body')</script>",
        '"b": "<b>1</b>"',
        "  <b>text</b>",
        "00 ff fe 20 72 65 73 74",
    )
    for number, text in enumerate(expected, 1):
        page.locator(f"[data-message='{number}']").click()
        expect(page.get_by_role("region", name="Body")).to_contain_text(text)
        if pictures is not None and number == 2:
            page.screenshot(path=pictures / "message.png")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("[data-message='2']").click()
    screen.button("hex").click()
    expect(page.get_by_role("region", name="Body")).to_contain_text("7b 22 61 22")
    page.keyboard.press("Escape")
    assert page.locator("main script, main img[src=x]").count() == 0


def test_messages_are_searched_in_all_their_parts(screen: Screen, bus: ServiceBusClient) -> None:
    many = [ServiceBusMessage(f"body {n}", message_id=f"id-{n}") for n in range(60)]
    many[41].application_properties = {"city": "Reykjavik"}
    send(bus, "desk", many)
    page = screen.page
    screen.open("entity/desk/messages")
    screen.rows("messages", 50)
    screen.button("Next page").click()
    screen.rows("messages", 10)
    screen.open("entity/desk/messages?search=reykjav")
    screen.rows("messages", 1)
    expect(page.get_by_text("id-41")).to_be_visible()
    screen.open("entity/desk/messages?search=nowhere")
    screen.rows("messages", 0)


def test_pages_of_a_partitioned_entity_leave_nothing_out(
    screen: Screen, bus: ServiceBusClient
) -> None:
    """Fragments are merged by time: no sequence number says how far each was shown."""
    send(bus, "payments", [ServiceBusMessage("p", message_id=f"p{n}") for n in range(130)])
    path = f"{screen.base}/$partibus/entities/payments/messages"
    seen: list[str] = []
    start = "0"
    while start is not None:
        page = screen.page.request.get(path, params={"from": start, "max": "40"}).json()
        seen += [message["message_id"] for message in page["messages"]]
        start = page["next"]
    assert sorted(seen) == sorted(f"p{n}" for n in range(130))


def test_scheduled_messages_are_cancelled(screen: Screen, bus: ServiceBusClient) -> None:
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    with bus.get_queue_sender("later") as sender:
        sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], tomorrow)
    page = screen.page
    screen.open("entity/later/scheduled")
    screen.rows("messages", 2)
    page.get_by_label("Choose message 1").check()
    screen.cli("partibus schedule cancel later 1")
    screen.button("Cancel 1 scheduled").click()
    screen.rows("messages", 1)


def test_deferred_messages_are_deleted(screen: Screen, bus: ServiceBusClient) -> None:
    send(bus, "later", [ServiceBusMessage("put aside")])
    with bus.get_queue_receiver("later") as receiver:
        (message,) = received(receiver, 1)
        receiver.defer_message(message)  # type: ignore[arg-type]
    screen.open("entity/later/deferred")
    screen.rows("messages", 1)
    screen.page.get_by_label("Choose all on this page").check()
    screen.button("Delete 1 deferred").click()
    screen.rows("messages", 0)


def test_dead_letters_are_found_understood_and_resubmitted(
    screen: Screen, bus: ServiceBusClient, pictures: Path | None
) -> None:
    """As an operator would: where are they, why, all of one reason back, the rest away."""
    send(
        bus,
        "orders",
        [ServiceBusMessage(f'{{"order": {n}}}', message_id=f"o{n}") for n in range(150)],
    )
    dead_letter(bus, "orders", 120, "NoStock", "the article is sold out")
    dead_letter(bus, "orders", 5, "BadAddress", "the address has no street")
    page = screen.page
    screen.open("dead-letters")
    page.get_by_role("link", name="orders", exact=True).click()
    screen.rows("reasons", 2)
    bad = page.get_by_role("row").filter(has_text="BadAddress").first
    expect(bad).to_contain_text("the address has no street")
    if pictures is not None:
        page.screenshot(path=pictures / "dead-letters.png")
    stock = page.get_by_role("row").filter(has_text="NoStock").first
    screen.button("Resubmit", stock).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("[data-preview='120']")).to_be_visible()
    screen.cli("partibus dlq resubmit orders --reason NoStock --yes")
    dialog.get_by_role("button", name="Resubmit 120").click()
    expect(dialog.locator("[data-finished='120']")).to_be_visible()
    screen.button("Done", dialog).click()
    screen.rows("reasons", 1)
    screen.button("Purge all 5").click()
    screen.cli("partibus dlq purge orders --yes")
    dialog.get_by_role("button", name="Delete 5").click()
    expect(dialog.locator("[data-finished='5']")).to_be_visible()
    screen.button("Done", dialog).click()
    screen.rows("reasons", 0)
    with bus.get_queue_receiver("orders") as receiver:
        numbers = {m.message_id for m in receiver.peek_messages(250, sequence_number=150)}  # type: ignore[attr-defined]
    assert len(numbers) >= 120


def test_one_dead_letter_is_fixed_another_moved_a_third_deleted(
    screen: Screen, bus: ServiceBusClient
) -> None:
    send(
        bus, "edits", [ServiceBusMessage('{"amount": "ten"}', message_id=f"e{n}") for n in range(3)]
    )
    dead_letter(bus, "edits", 3, "NotANumber", "amount must be a number")
    page = screen.page
    screen.open("entity/edits/dead-letters")
    page.locator("[data-message='1']").click()
    screen.button("Edit and resubmit").click()
    text = page.get_by_role("dialog").last.get_by_label("Body", exact=True)
    text.fill(text.input_value().replace('"ten"', "10"))
    screen.button("Send", page.get_by_role("dialog", name="Edit and resubmit 1")).click()
    expect(page.locator("[data-message]")).to_have_count(2)
    page.get_by_label("Choose message 2").check()
    screen.button("Move", page.locator(".notice")).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To").fill("archive")
    dialog.get_by_role("button", name="Move 1").click()
    expect(dialog.locator("[data-finished='1']")).to_be_visible()
    screen.button("Done", dialog).click()
    page.locator("[data-message='3']").click()
    screen.button("Delete", page.get_by_role("dialog", name="Message 3")).click()
    page.get_by_role("button", name="Delete 1").click()
    screen.button("Done").click()
    screen.rows("reasons", 0)
    with bus.get_queue_receiver("edits") as receiver:
        (fixed,) = received(receiver, 1)
        assert (str(fixed), fixed.message_id) == ('{"amount": 10}', "e0")  # type: ignore[attr-defined]
        receiver.complete_message(fixed)  # type: ignore[arg-type]
    with bus.get_queue_receiver("archive") as receiver:
        (moved,) = received(receiver, 1)
        assert moved.message_id == "e1"  # type: ignore[attr-defined]
        receiver.complete_message(moved)  # type: ignore[arg-type]
    with bus.get_queue_receiver("edits", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        assert receiver.peek_messages(10) == []


def test_a_body_of_a_megabyte_is_shown_as_json(screen: Screen, bus: ServiceBusClient) -> None:
    items = [{"article": number, "text": "x" * 80} for number in range(9_100)]
    body = json.dumps({"first": "at the beginning", "items": items})
    assert 1_000_000 < len(body) < 1 << 20
    send(bus, "parcels", [ServiceBusMessage(body, content_type="application/json")])
    page = screen.page
    screen.open("entity/parcels/messages")
    screen.rows("messages", 1)
    page.locator("[data-message='1']").click()
    shown = page.get_by_role("region", name="Body")
    expect(shown).to_contain_text('"first": "at the beginning"')
    expect(page.locator("[data-body]")).to_contain_text("the beginning is shown")
    for view in ("text", "hex", "json"):
        screen.button(view).click()
        expect(screen.button(view)).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_messages_are_chosen_by_when_they_came(screen: Screen, bus: ServiceBusClient) -> None:
    send(bus, "desk", [ServiceBusMessage("of today", message_id="of-today")])
    path = f"{screen.base}/$partibus/entities/desk/messages"
    now = datetime.datetime.now(datetime.UTC)

    def ids(**query: str) -> list[str]:
        answer = screen.page.request.get(path, params={"max": "200", **query}).json()
        return [message["message_id"] for message in answer["messages"]]

    hour = datetime.timedelta(hours=1)
    assert "of-today" in ids(since=(now - hour).isoformat())
    assert "of-today" not in ids(since=(now + hour).isoformat())
    assert "of-today" not in ids(until=(now - hour).isoformat())
    assert screen.page.request.get(path, params={"since": "soon"}).status == 400
