"""The page of a cluster, in front of three real nodes over a real database.

The nodes are shared by the tests of this module, which leave the cluster as they found it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from playwright.sync_api import Browser, Route, expect

from console.conftest import root_key, watched
from console.screen import Screen

if TYPE_CHECKING:
    from support.nodes.cluster import TestCluster
    from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")

PATIENCE_MS = 60_000
LANES = 6


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres: "PostgresServer"
) -> Iterator["TestCluster"]:
    from support.nodes.cluster import new_cluster

    with new_cluster(tmp_path_factory.mktemp("console-cluster"), postgres, 3) as made:
        yield made


@pytest.fixture
def screen(browser: Browser, cluster: "TestCluster") -> Iterator[Screen]:
    """A page of the first node that is signed in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    errors = watched(page)
    first = cluster.nodes[0]
    made = Screen(page, first.ready.http_port)
    made.open()
    made.sign_in(root_key(first))
    yield made
    context.close()
    expect.set_options(timeout=5_000)
    assert not errors


def test_nodes_lanes_and_databases_are_shown(
    screen: Screen, cluster: "TestCluster", pictures: Path | None
) -> None:
    page = screen.page
    page.get_by_role("link", name="Cluster", exact=True).click()
    screen.title("Cluster")
    screen.rows("nodes", 3)
    screen.rows("lanes", LANES)
    for node in cluster.nodes:
        row = page.locator(f"[data-node='{node.number}']")
        expect(row).to_have_attribute("data-state", "up")
        expect(row).to_contain_text("MiB")
    for lane, owner in cluster.owners().items():
        row = page.locator(f"[data-lane='{lane}']")
        expect(row).to_have_attribute("data-owner", str(owner))
        expect(row).to_have_attribute("data-state", "up")
    expect(page.locator("[data-database='0']")).to_have_attribute("data-state", "up")
    expect(page.locator("[data-work]")).to_have_text("No lanes are moving.")
    screen.cli("partibus cluster status")
    twin = page.locator("[data-twin]").get_attribute("href")
    assert twin == "/$partibus/cluster"
    report = page.request.get(screen.base + twin).json()
    status = cluster.status()
    shown = [{name: node[name] for name in ("node", "lanes", "state")} for node in report["nodes"]]
    assert shown == [{name: node[name] for name in shown[0]} for node in status["nodes"]]
    assert (report["lanes"], report["unowned"], report["moves"]) == (LANES, [], [])
    if pictures is not None:
        page.screenshot(path=pictures / "cluster.png")


def test_a_node_is_drained_and_takes_lanes_again(screen: Screen, cluster: "TestCluster") -> None:
    page, number = screen.page, cluster.nodes[1].number
    screen.open("cluster")
    held = len(cluster.status()["nodes"][1]["lanes"])
    page.get_by_role("button", name=f"Drain node {number}").click()
    dialog = page.get_by_role("dialog", name=f"Drain node {number}")
    expect(dialog.locator("[data-preview]")).to_have_attribute("data-preview", str(held))
    expect(dialog.locator("[data-cli] code")).to_have_text(f"partibus cluster drain {number}")
    screen.button(f"Drain node {number}", dialog).click()
    expect(dialog).to_have_count(0)
    row = page.locator(f"[data-node='{number}']")
    expect(row).to_have_attribute("data-state", "draining")
    expect(page.locator(f"[data-owner='{number}']")).to_have_count(0)
    expect(page.locator("[data-lane][data-state=up]")).to_have_count(LANES)
    page.get_by_role("button", name=f"Let node {number} take lanes again").click()
    dialog = page.get_by_role("dialog", name=f"Resume node {number}")
    expect(dialog.locator("[data-cli] code")).to_have_text(
        f"partibus cluster drain {number} --undo"
    )
    screen.button(f"Resume node {number}", dialog).click()
    expect(row).to_have_attribute("data-state", "up")
    expect(page.locator(f"[data-owner='{number}'][data-state=up]")).to_have_count(held)


def test_rebalance_and_evict_show_what_they_would_do(
    screen: Screen, cluster: "TestCluster"
) -> None:
    page, number = screen.page, cluster.nodes[2].number
    screen.open("cluster")
    page.get_by_role("button", name="Rebalance …").click()
    dialog = page.get_by_role("dialog", name="Rebalance the lanes")
    expect(dialog.locator("[data-preview]")).to_have_text("No lane has to move.")
    screen.cli("partibus cluster rebalance")
    screen.button("Rebalance the lanes", dialog).click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name=f"Evict node {number}").click()
    dialog = page.get_by_role("dialog", name=f"Evict node {number}")
    expect(dialog.locator("[data-preview] li")).not_to_have_count(0)
    expect(dialog).to_contain_text("It is alive")
    screen.cli(f"partibus cluster evict {number} --force --yes")
    expect(screen.button(f"Evict node {number}", dialog)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(f"[data-node='{number}']")).to_have_attribute("data-state", "up")


def test_pages_speak_of_nodes_and_lanes_of_the_whole_cluster(
    screen: Screen, cluster: "TestCluster"
) -> None:
    page, far = screen.page, cluster.nodes[1]
    expect(page.get_by_role("heading", name="Lanes and nodes")).to_be_visible()
    expect(page.locator("[data-store]").first).to_contain_text(re.compile(r"node \d"))
    with (
        ServiceBusClient.from_connection_string(far.connection_string) as client,
        client.get_queue_sender("parts") as sender,
    ):
        sender.send_messages([ServiceBusMessage(f"{n}") for n in range(20)])
        screen.open("connections?entity=parts")
        expect(page.locator("[data-scope=cluster]")).to_have_text("whole cluster")
        row = page.get_by_role("row").filter(has_text=f"node {far.number}")
        expect(row).to_contain_text("RootManageSharedAccessKey")
    screen.open("entity/parts/fragments")
    expect(page.get_by_role("columnheader", name="lane")).to_be_visible()
    expect(page.get_by_text(re.compile(r"fragments .* · node \d")).first).to_be_visible()
    screen.open("events")
    page.get_by_role("searchbox").fill("lane-opened")
    expect(page.locator("[data-events]")).not_to_have_attribute("data-events", "0")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_by_the_keyboard_in_both_themes_and_without_findings(screen: Screen, theme: str) -> None:
    page = screen.page
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    page.reload()
    screen.title("Overview")
    page.keyboard.press("g")
    page.keyboard.press("l")
    screen.title("Cluster")
    screen.rows("nodes", 3)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator("[data-preview]")).to_be_visible()
    found = _findings(screen)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not found + _findings(screen)


def _findings(screen: Screen) -> list[tuple[str, str]]:
    answer = Axe().run(screen.page, options={"resultTypes": ["violations"]}).response
    return [
        (violation["id"], violation["nodes"][0]["html"][:160])
        for violation in answer["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


def test_who_may_only_look_is_offered_no_action(screen: Screen) -> None:
    """The server refuses changes by itself; here they are not even shown."""
    page = screen.page

    def read_only(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "console": "read-only"})

    page.route("**/$partibus/session", read_only)
    page.reload()
    screen.open("cluster")
    screen.rows("nodes", 3)
    expect(page.get_by_text("read-only")).to_be_visible()
    expect(page.locator("main").get_by_role("button", name="…")).to_have_count(0)
    refused = page.request.post(
        f"{screen.base}/$partibus/cluster/drain", data={"node": 1, "dry_run": True}
    )
    assert refused.status == 403, "a change without the header of the console"


def test_a_node_that_is_killed_is_seen_and_evicted(
    screen: Screen, cluster: "TestCluster", pictures: Path | None
) -> None:
    """Nobody touches the page: it shows that the node is gone, and that others have its lanes."""
    page, doomed = screen.page, cluster.nodes[2]
    number = doomed.number
    screen.open("cluster")
    screen.rows("nodes", 3)
    doomed.sigkill()
    expect(page.locator(f"[data-gone='{number}']")).to_be_visible()
    if pictures is not None:
        page.screenshot(path=pictures / "cluster-lost.png")
    expect(page.locator(f"[data-owner='{number}']")).to_have_count(0)
    expect(page.locator("[data-lane][data-state=up]")).to_have_count(LANES)
    scrape = page.request.get(f"{screen.base}/metrics").text()
    assert 'partibus_cluster_nodes{state="down"} 1' in scrape
    taken = re.findall(r"^partibus_node_takeovers_total\{.*\} (\d+)$", scrape, re.MULTILINE)
    assert sum(map(int, taken)) >= 1
    page.get_by_role("button", name=f"Evict node {number}").click()
    dialog = page.get_by_role("dialog", name=f"Evict node {number}")
    expect(dialog.locator("[data-cli] code")).to_have_text(f"partibus cluster evict {number} --yes")
    screen.button(f"Evict node {number}", dialog).click()
    screen.rows("nodes", 2)
    expect(page.locator("[data-gone]")).to_have_count(0)
    doomed.start()
    screen.rows("nodes", 3)
    cluster.settle()


def test_a_server_that_is_alone_has_no_such_page(
    browser: Browser, server: object, cookies: list[object]
) -> None:
    context = browser.new_context()
    context.add_cookies(cookies)  # type: ignore[arg-type]
    page = context.new_page()
    alone = Screen(page, server.ready.http_port)  # type: ignore[attr-defined]
    alone.open("cluster")
    alone.title("There is no such page")
    expect(page.get_by_role("link", name="Cluster", exact=True)).to_have_count(0)
    assert page.request.get(f"{alone.base}/$partibus/cluster").status == 404
    context.close()
