"""Long lists come in pages, and every client finds its way to the next."""

import itertools
from collections.abc import Iterator
from typing import Final

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleFilter

from conformance.admin.conftest import Fresh
from support.server import ServerProcess

COUNT: Final = 105
"""More than the hundred that a page holds at most."""
EXPECTED: Final = [f"page-{number:03d}" for number in range(COUNT)]

Admin = ServiceBusAdministrationClient


@pytest.fixture(scope="module")
def many(server: ServerProcess) -> Iterator[Admin]:
    with Admin.from_connection_string(server.connection_string, retry_total=0) as admin:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(server.ready.ca))
            # A process may come back to these tests after others, while its server is the same.
            there = {queue.name for queue in admin.list_queues()}
            for name in EXPECTED:
                if name not in there:
                    admin.create_queue(name)
        yield admin


def wanted(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("page-")]


def test_a_list_longer_than_a_page(many: Admin) -> None:
    assert wanted([queue.name for queue in many.list_queues()]) == EXPECTED
    runtimes = many.list_queues_runtime_properties()
    assert wanted([queue.name for queue in runtimes]) == EXPECTED


@pytest.mark.parametrize("size", [1, 40, 100, 1000])
def test_pages_of_a_chosen_size(many: Admin, size: int) -> None:
    pages = [list(page) for page in many.list_queues(max_page_size=size).by_page()]
    names = [queue.name for page in pages for queue in page]
    assert wanted(names) == EXPECTED
    assert len(set(names)) == len(names)
    assert [len(page) for page in pages[:-1]] == [min(size, 100)] * (len(pages) - 1)
    assert 1 <= len(pages[-1]) <= min(size, 100)


def test_a_list_from_the_middle(many: Admin) -> None:
    whole = [queue.name for queue in many.list_queues()]
    part = [queue.name for queue in many.list_queues(start_index=7, max_page_size=10)]
    assert part == whole[7:]
    assert list(many.list_queues(start_index=10_000)) == []


def test_new_entities_do_not_disturb_a_reader(many: Admin, fresh: Fresh) -> None:
    reader = iter(many.list_queues(max_page_size=10))
    first = [queue.name for queue in itertools.islice(reader, 10)]
    many.create_queue("a-" + fresh("newcomer"))
    rest = [queue.name for queue in reader]
    assert not set(first) & set(rest)
    assert wanted(first + rest) == EXPECTED


def test_subscriptions_and_rules_in_pages(many: Admin, fresh: Fresh) -> None:
    topic = fresh("paged")
    many.create_topic(topic)
    for number in range(5):
        many.create_subscription(topic, f"s{number}")
        many.create_rule(topic, "s0", f"r{number}", filter=SqlRuleFilter("1=1"))
    subscriptions = many.list_subscriptions(topic, max_page_size=2).by_page()
    assert [[one.name for one in page] for page in subscriptions] == [
        ["s0", "s1"],
        ["s2", "s3"],
        ["s4"],
    ]
    rules = many.list_rules(topic, "s0", max_page_size=4).by_page()
    assert [[one.name for one in page] for page in rules] == [
        ["$Default", "r0", "r1", "r2"],
        ["r3", "r4"],
    ]
