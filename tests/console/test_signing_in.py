"""Who gets in, with what, and what a page of another site can do with it."""

import http.client
import json

import pytest
from playwright.sync_api import Browser, expect

from console.conftest import root_key, watched
from console.screen import Screen
from support.server import ServerProcess


def test_a_wrong_key_is_refused_in_words(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page()
    screen = Screen(page, server.ready.http_port)
    screen.open()
    page.get_by_label("Key", exact=True).fill("wrong")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("signature does not match")
    page.close()


def test_a_connection_string_is_enough_and_the_key_never_leaves(
    browser: Browser, server: ServerProcess
) -> None:
    context = browser.new_context()
    page = context.new_page()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.headers} {request.post_data}"))
    screen = Screen(page, server.ready.http_port)
    page.goto(screen.base)  # the root leads a browser to the console
    page.get_by_role("button", name="Connection string").click()
    page.get_by_label("Connection string, as").fill(server.connection_string)
    page.get_by_role("button", name="Sign in", exact=True).click()
    screen.title("Overview")
    key = root_key(server)
    assert not [request for request in sent if key in request]
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    assert context.cookies() == []
    context.close()


def test_a_policy_of_an_entity_sees_that_entity_alone(
    browser: Browser, server: ServerProcess
) -> None:
    page = browser.new_page()
    errors = watched(page)
    screen = Screen(page, server.ready.http_port)
    screen.open()
    screen.sign_in("listen-sample-key", "ListenOnly", "doomed")
    screen.open("entity/doomed/messages")
    screen.rows("messages", 0)
    expect(page.get_by_role("link", name="Send", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="Settings", exact=True)).to_have_count(0)
    screen.open("entity/orders/messages")
    expect(page.get_by_role("alert")).to_be_visible()
    page.close()
    assert not errors


def _ask(
    server: ServerProcess, method: str, path: str, headers: dict[str, str], body: object = None
) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.ready.http_port, timeout=30)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return connection.getresponse()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-partibus-console": "1", "origin": "http://elsewhere.example"},
        {"x-partibus-console": "1", "sec-fetch-site": "cross-site"},
    ],
)
def test_another_site_changes_nothing(
    server: ServerProcess, cookies: list[dict[str, str]], headers: dict[str, str]
) -> None:
    """The cookie alone, as a browser would send it for a form of another site, is refused."""
    cookie = {"cookie": f"partibus-session={cookies[0]['value']}"}
    answer = _ask(server, "POST", "/$partibus/entities/doomed/purge", {**cookie, **headers}, {})
    assert answer.status == 403
    own = {**cookie, "x-partibus-console": "1"}
    assert _ask(server, "POST", "/$partibus/entities/doomed/purge", own, {}).status == 200
    assert _ask(server, "GET", "/$partibus/stores", cookie).status == 200


def test_the_pages_have_strict_headers(server: ServerProcess) -> None:
    answer = _ask(server, "GET", "/console/", {})
    policy = answer.getheader("content-security-policy", "")
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.getheader("x-content-type-options") == "nosniff"
    body = answer.read().decode()
    assert "<script>" not in body and "style=" not in body


@pytest.mark.parametrize("path", ["/console/../pages.py", "/console/%2e%2e/pages.py", "/console/x"])
def test_nothing_beside_the_pages_is_served(server: ServerProcess, path: str) -> None:
    assert _ask(server, "GET", path, {}).status == 404
