"""Requests against the application: what is answered, and who is let in."""

import pytest

from partibus.atom.application import is_management
from partibus.atom.counts import EntityCounts
from partibus.atom.documents import Caller
from partibus.control.access.policies import AccessPolicy
from partibus.domain.entity import FilterType, QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.limits import EMULATOR, PREMIUM, STANDARD
from partibus.domain.rights import ALL_RIGHTS, Rights
from support.management import ATOM, HOST, ManagementBench, entry, queue

QUEUE = "<QueueDescription/>"
TOPIC = "<TopicDescription/>"
SUBSCRIPTION = "<SubscriptionDescription/>"


# --- what is answered ------------------------------------------------------------------------


async def test_a_put_makes_and_answers(bench: ManagementBench) -> None:
    answer = await bench.put("/q", queue("<MaxDeliveryCount>4</MaxDeliveryCount>"))
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/atom+xml;type=entry;charset=utf-8"
    assert answer.value("MaxDeliveryCount") == "4"
    assert answer.root.findtext(f"{{{ATOM}}}title") == "q"
    assert answer.root.findtext(f"{{{ATOM}}}id") == f"https://{HOST}/q?api-version=2021-05"
    assert bench.catalog.entity("q").queue.max_delivery_count == 4


@pytest.mark.rule("PRP-3")
async def test_an_update_replaces_what_can_change_and_keeps_what_cannot(
    bench: ManagementBench,
) -> None:
    spec = QueueSpec(
        requires_session=True,
        enable_partitioning=True,
        fragments=3,
        max_delivery_count=4,
        user_metadata="old",
    )
    bench.catalog.create("q", spec)
    answer = await bench.put("/q", queue("<LockDuration>PT5S</LockDuration>"), update=True)
    assert answer.status == 200
    after = bench.catalog.entity("q").queue
    assert (after.requires_session, after.enable_partitioning, after.fragments) == (True, True, 3)
    assert (after.lock_duration_ms, after.max_delivery_count) == (5_000, 10)
    assert after.user_metadata == ""


async def test_the_message_size_stays_open_when_it_is_sent_back(bench: ManagementBench) -> None:
    await bench.put("/q", QUEUE)
    shown = (await bench.ask("GET", "/q")).value("MaxMessageSizeInKilobytes")
    same = f"<MaxMessageSizeInKilobytes>{shown}</MaxMessageSizeInKilobytes>"
    await bench.put("/q", queue(f"{same}"), update=True)
    assert bench.catalog.entity("q").queue.max_message_size_in_kilobytes is None


@pytest.mark.rule("CNT-1", "SEED-62")
async def test_figures_are_those_of_the_workers(bench: ManagementBench) -> None:
    bench.catalog.create("q", QueueSpec())
    bench.counted.by_path["q"] = EntityCounts(
        active=1,
        dead_letter=2,
        scheduled=4,
        deferred=8,
        transfer=16,
        transfer_dead_letter=32,
        size_bytes=99,
        is_whole=False,
    )
    answer = await bench.ask("GET", "/q")
    assert answer.value("MessageCount") == "63"
    assert answer.value("SizeInBytes") == "99"
    assert answer.value("EntityAvailabilityStatus") == "Limited"
    counts = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
    told = {
        element.tag.rpartition("}")[2]: element.text
        for element in answer.root.iter()
        if element.tag.startswith(f"{{{counts}}}")
    }
    assert told == {
        "ActiveMessageCount": "1",
        "DeadLetterMessageCount": "2",
        "ScheduledMessageCount": "4",
        "TransferMessageCount": "16",
        "TransferDeadLetterMessageCount": "32",
    }
    # The JavaScript client learns the prefix from this very element.
    assert f'<CountDetails xmlns:d2p1="{counts}"><d2p1:ActiveMessageCount>' in answer.text


async def test_only_what_is_shown_is_counted(bench: ManagementBench) -> None:
    for number in range(5):
        bench.catalog.create(f"q{number}", QueueSpec())
    await bench.ask("GET", "/$Resources/queues", query="api-version=2021-05&$skip=1&$top=2")
    assert bench.counted.asked == [["q1", "q2"]]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("orders.servicebus.windows.net", "orders"),
        ("a.b.servicebus.windows.net:5300", "a.b"),
        ("localhost:5300", "partibus"),
    ],
)
def test_the_name_of_the_namespace_is_that_of_its_host(host: str, name: str) -> None:
    assert Caller("https", host).namespace_name == name


@pytest.mark.parametrize(
    ("profile", "sku"), [(STANDARD, "Standard"), (PREMIUM, "Premium"), (EMULATOR, "Standard")]
)
async def test_the_tier_follows_the_profile(profile: object, sku: str) -> None:
    bench = ManagementBench(profile)  # type: ignore[arg-type]
    answer = await bench.ask("GET", "/$namespaceinfo")
    assert answer.value("MessagingSKU") == sku
    assert (answer.value("MessagingUnits") == "1") is (sku == "Premium")
    bench.catalog.close()


async def test_a_default_rule_of_its_own(bench: ManagementBench) -> None:
    bench.catalog.create("t", TopicSpec())
    described = (
        "<SubscriptionDescription><DefaultRuleDescription><Filter i:type='SqlFilter'>"
        "<SqlExpression>a = 1</SqlExpression></Filter><Name>first</Name>"
        "</DefaultRuleDescription></SubscriptionDescription>"
    )
    assert (await bench.put("/t/Subscriptions/s", described)).status == 201
    spec = bench.catalog.entity("t/Subscriptions/s").spec
    assert isinstance(spec, SubscriptionSpec)
    (rule,) = spec.rules
    assert (rule.name, rule.filter_type, rule.sql_expression) == ("first", FilterType.SQL, "a = 1")


async def test_a_delete_answers_with_nothing(bench: ManagementBench) -> None:
    bench.catalog.create("t", TopicSpec())
    bench.catalog.create("t/Subscriptions/s", SubscriptionSpec())
    answer = await bench.ask("DELETE", "/T")
    assert (answer.status, answer.body, bench.paths()) == (200, b"", [])


@pytest.mark.parametrize(
    ("version", "has_size", "has_filters"),
    [
        ("2017-04", False, False),
        ("2021-05", True, False),
        ("2024-05", True, True),
        ("", True, True),
    ],
)
async def test_what_each_version_knows(
    bench: ManagementBench, version: str, has_size: bool, has_filters: bool
) -> None:
    bench.catalog.create("t", TopicSpec())
    answer = await bench.ask("GET", "/t", query=f"api-version={version}")
    assert (answer.value("MaxMessageSizeInKilobytes") is not None) is has_size
    assert (answer.value("SqlFilterCount") is not None) is has_filters


@pytest.mark.rule("SEED-15", "CON-12")
@pytest.mark.parametrize(
    ("version", "status"), [("2013-10", 201), ("2024-05", 201), ("2013-09", 400), ("", 400)]
)
async def test_partitioning_needs_a_version_that_has_it(
    bench: ManagementBench, version: str, status: int
) -> None:
    partitioned = queue("<EnablePartitioning>true</EnablePartitioning>")
    answer = await bench.put("/q", partitioned, query=f"api-version={version}")
    assert answer.status == status
    assert (await bench.put("/plain", QUEUE, query=f"api-version={version}")).status == 201


@pytest.mark.rule("PRP-5")
async def test_a_subscription_detects_no_duplicates(bench: ManagementBench) -> None:
    bench.catalog.create("t", TopicSpec())
    wish = "<RequiresDuplicateDetection>true</RequiresDuplicateDetection>"
    description = f"<SubscriptionDescription>{wish}</SubscriptionDescription>"
    answer = await bench.put("/t/Subscriptions/s", description)
    assert answer.status == 201
    assert answer.value("RequiresDuplicateDetection") is None
    assert answer.value("DuplicateDetectionHistoryTimeWindow") is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"api-version=2021-05", True),
        (b"$top=1&Api-Version=2021-05", True),
        (b"", False),
        (b"timeout=60", False),
    ],
)
def test_requests_for_this_application(query: bytes, expected: bool) -> None:
    scope = {"type": "http", "query_string": query, "method": "GET", "path": "/orders"}
    assert is_management(scope) is expected
    assert is_management({"type": "lifespan"}) is False


async def test_the_root_is_an_empty_feed_for_who_has_a_token(bench: ManagementBench) -> None:
    answer = await bench.ask("GET", "/", query="")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("application/atom+xml;type=feed")
    assert answer.root.tag == f"{{{ATOM}}}feed"
    assert answer.root.find(f"{{{ATOM}}}entry") is None
    scope = {"type": "http", "query_string": b"", "method": "GET", "path": "/"}
    assert is_management(scope | {"headers": [(b"authorization", b"x")]}) is True
    assert is_management(scope | {"headers": []}) is False
    assert is_management(scope | {"headers": [(b"authorization", b"x")], "path": "/q"}) is False


# --- who is let in ----------------------------------------------------------------------------


@pytest.mark.rule("SAS-6", "SAS-8", "SAS-11")
async def test_rights(bench: ManagementBench) -> None:
    bench.catalog.create("q", QueueSpec())
    bench.catalog.create("other", QueueSpec())
    bench.catalog.put_policy("", AccessPolicy("listen", "lk", "lk2", Rights.LISTEN))
    bench.catalog.put_policy("q", AccessPolicy("own", "ok", "ok2", ALL_RIGHTS))
    own = bench.token(f"https://{HOST}/q", "own", "ok2")
    for token, path, status, code in (
        (None, "/q", 401, 40102),
        ("", "/q", 401, 40102),
        ("Basic abc", "/q", 401, 40105),
        ("Bearer abc", "/q", 401, 40105),
        (bench.token("", "listen", "lk"), "/q", 401, 40100),
        (bench.token("", "root", "x"), "/q", 401, 40109),
        (bench.token(f"https://{HOST}/other"), "/q", 401, 40104),
        (own, "/q", 200, 0),
        (own, "/other", 401, 40104),
        (own, "/q-other", 401, 40104),
        (own, "/$Resources/queues", 401, 40104),
        (f"Bearer {own}", "/Q", 200, 0),
        # The JavaScript client signs the whole address in lower case, parameters and all.
        (bench.token(f"https://{HOST}/q?api-version=2021-05"), "/Q", 200, 0),
    ):
        answer = await bench.ask("GET", path, token=token)
        assert answer.status == status, (token, path)
        assert not code or f"SubCode={code}." in answer.text
        assert (answer.headers.get("www-authenticate") is not None) is (status == 401)


@pytest.mark.rule("FWD-3")
async def test_forwarding_needs_rights_at_both_ends(bench: ManagementBench) -> None:
    for name in ("q", "to"):
        bench.catalog.create(name, QueueSpec())
    bench.catalog.put_policy("q", AccessPolicy("own", "ok", "ok2", ALL_RIGHTS))
    bench.catalog.put_policy("to", AccessPolicy("listen", "lk", "lk2", Rights.LISTEN))
    own = bench.token(f"https://{HOST}/q", "own", "ok")
    listen = bench.token(f"sb://{HOST}/to", "listen", "lk")
    for element, header in (
        ("ForwardTo", "servicebussupplementaryauthorization"),
        ("ForwardDeadLetteredMessagesTo", "servicebusdlqsupplementaryauthorization"),
    ):
        description = queue(f"<{element}>sb://{HOST}/to</{element}>")
        body = entry(description)
        for supplement, status in (
            ({}, 401),
            ({header: listen}, 401),
            ({header: "nonsense"}, 401),
            ({header: bench.token(f"sb://{HOST}/to")}, 200),
            ({header: bench.token(HOST)}, 200),  # as the JavaScript client signs it
        ):
            headers = {"if-match": "*"} | supplement
            answer = await bench.ask("PUT", "/q", body, headers=headers, token=own)
            assert answer.status == status, (element, supplement)
    assert (await bench.put("/q", description, update=True)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/orders/messages", False),
        ("PUT", "/orders/messages", True),
        ("POST", "/orders/messages/head", False),
        ("DELETE", "/orders/Messages/Head", False),
        ("DELETE", "/orders/messages/17/6b7f3d1e-8f0c-4c3a-9f62-3d1f8f0c4c3a", False),
        ("DELETE", "/orders/messages/17/no-lock", True),
        ("GET", "/orders/messages", True),
    ],
)
def test_messages_are_not_managed_though_an_api_version_is_named(
    method: str, path: str, expected: bool
) -> None:
    scope = {"type": "http", "query_string": b"api-version=2015-01", "method": method, "path": path}
    assert is_management(scope) is expected
