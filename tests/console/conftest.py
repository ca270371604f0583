"""A real server with real traffic, and the system's Chromium in front of its console.

One server and one browser serve all tests of the session; each test has a page of its own that is
signed in already. A script error, or a violation of the content security policy, fails the test
in which it happens.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiver
from playwright.sync_api import Browser, Page, sync_playwright

from console.screen import Screen
from support.collected import tests_below
from support.groups import chromium
from support.server import ServerProcess

HERE = Path(__file__).parent
NAMESPACE = """
[[queue]]
name = "orders"

[[queue]]
name = "payments"
enable_partitioning = true

[[queue]]
name = "baskets"
requires_session = true

[[queue]]
name = "archive"

[[queue]]
name = "desk"

[[queue]]
name = "edits"

[[queue]]
name = "hostile"

[[queue]]
name = "later"

[[queue]]
name = "shop"

[[queue]]
name = "parcels"

[[queue]]
name = "doomed"

[[queue.policy]]
name = "ListenOnly"
rights = ["Listen"]
key = "listen-sample-key"

[[topic]]
name = "news"

[[topic.subscription]]
name = "everything"

[[topic.subscription]]
name = "large"

[[topic.subscription.rule]]
name = "large"
sql_filter = "amount > 1000"
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_below(HERE, items):
        item.add_marker(pytest.mark.group("browser"))
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
        item.add_marker(pytest.mark.xdist_group("console"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("console")
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE)
    with ServerProcess(directory, config, "--memory", "--faults", "--stores", "4") as process:
        yield process


@pytest.fixture(scope="session")
def bus(server: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client."""
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        yield client


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def cookies(browser: Browser, server: ServerProcess) -> list[object]:
    """Of somebody who has signed in with the root key."""
    context = browser.new_context()
    screen = Screen(context.new_page(), server.ready.http_port)
    screen.open()
    screen.sign_in(root_key(server))
    found = context.cookies()
    context.close()
    return list(found)


def root_key(server: ServerProcess) -> str:
    match = re.search(r"SharedAccessKey=([^;]+)", server.connection_string)
    assert match is not None
    return match[1]


def watched(page: Page) -> list[str]:
    """The errors of a page, as they come."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda line: (
            errors.append(line.text)
            if "Content Security Policy" in line.text or "Refused to" in line.text
            else None
        ),
    )
    page.on("dialog", lambda dialog: errors.append(f"a script asked: {dialog.message}"))
    return errors


@pytest.fixture
def screen(browser: Browser, server: ServerProcess, cookies: list[object]) -> Iterator[Screen]:
    """A page that is signed in."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    context.add_cookies(cookies)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(20_000)
    errors = watched(page)
    yield Screen(page, server.ready.http_port)
    context.close()
    assert not errors


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where screenshots for the documents go; None when none are wanted."""
    place = os.environ.get("PARTIBUS_SCREENSHOTS")
    if place is None:
        return None
    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def send(bus: ServiceBusClient, queue: str, messages: list[ServiceBusMessage]) -> None:
    """Send with the stock client."""
    with bus.get_queue_sender(queue) as sender:
        sender.send_messages(messages)


def received(receiver: ServiceBusReceiver, count: int) -> list[object]:
    """So many messages, however many calls it takes."""
    found: list[object] = []
    while len(found) < count:
        found += receiver.receive_messages(count - len(found), max_wait_time=30)
    return found


def dead_letter(bus: ServiceBusClient, queue: str, count: int, reason: str, why: str) -> None:
    """Have a consumer set aside so many messages."""
    with bus.get_queue_receiver(queue) as receiver:
        for message in received(receiver, count):
            receiver.dead_letter_message(message, reason=reason, error_description=why)  # type: ignore[arg-type]
