"""Requests that are wrong, hostile or too large: each is refused, and nothing is changed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from partibus.atom import application
from partibus.atom.application import BODY_BYTES_MAX
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.limits import EMULATOR
from support.management import ManagementBench, entry, queue

QUEUE = "<QueueDescription/>"
TOPIC = "<TopicDescription/>"
SUBSCRIPTION = "<SubscriptionDescription/>"


def rule(parts: str) -> str:
    return f"<RuleDescription>{parts}</RuleDescription>"


# --- what is refused --------------------------------------------------------------------------

LONG = "x" * 5000
HOSTILE = {
    "no body": ("PUT", "/new", b"", 400),
    "not XML": ("PUT", "/new", b"{}", 400),
    "not UTF-8": ("PUT", "/new", b"\xff\xff", 400),
    "a document type": ("PUT", "/new", b"<!DOCTYPE x><x/>", 400),
    "another document": ("PUT", "/new", b"<html/>", 400),
    "another kind of description": ("PUT", "/new", entry(SUBSCRIPTION), 400),
    "an unknown description": ("PUT", "/new", entry("<EventHubDescription/>"), 400),
    "a rule at an entity": ("PUT", "/new", entry("<RuleDescription/>"), 400),
    "a queue below a topic": ("PUT", "/t/Subscriptions/new", entry(QUEUE), 400),
    "an entity at a rule": ("PUT", "/t/Subscriptions/s/Rules/new", entry(QUEUE), 400),
    "below a queue": ("PUT", "/q/Subscriptions/new", entry(SUBSCRIPTION), 400),
    "below nothing": ("PUT", "/no/Subscriptions/new", entry(SUBSCRIPTION), 404),
    "the root": ("PUT", "/", entry(QUEUE), 400),
    "a list": ("PUT", "/$Resources/queues", entry(QUEUE), 405),
    "rules as a whole": ("PUT", "/t/Subscriptions/s/Rules", entry(QUEUE), 405),
    "the namespace": ("DELETE", "/$namespaceinfo", b"", 405),
    "all queues": ("DELETE", "/$Resources/queues", b"", 405),
    "a parent folder": ("PUT", "/a/../b", entry(QUEUE), 400),
    "an escaped parent": ("PUT", "/a/%2e%2e/b", entry(QUEUE), 400),
    "an empty segment": ("PUT", "/a//b", entry(QUEUE), 400),
    "a path twice escaped": ("PUT", "/a%252Fb", entry(QUEUE), 400),
    "a null": ("PUT", "/a%00b", entry(QUEUE), 400),
    "bytes that are no UTF-8": ("GET", "/%ff%fe", b"", 400),
    "a very long name": ("PUT", f"/{LONG}", entry(QUEUE), 400),
    "a very long path": ("GET", "/a" * 2000, b"", 404),
    "a reserved name": ("PUT", "/$management", entry(QUEUE), 400),
    "posting": ("POST", "/q", b"", 405),
    "patching": ("PATCH", "/q", b"", 405),
    "a wrong boolean": (
        "PUT",
        "/new",
        entry(queue("<RequiresSession>maybe</RequiresSession>")),
        400,
    ),
    "a huge number": (
        "PUT",
        "/new",
        entry(queue(f"<MaxDeliveryCount>{'9' * 5000}</MaxDeliveryCount>")),
        400,
    ),
    "a negative duration": (
        "PUT",
        "/new",
        entry(queue("<LockDuration>-PT5S</LockDuration>")),
        400,
    ),
    "an empty number": (
        "PUT",
        "/new",
        entry(queue("<MaxDeliveryCount/>")),
        400,
    ),
    "a property twice": (
        "PUT",
        "/new",
        entry(queue("<Status>Active</Status><Status>Active</Status>")),
        400,
    ),
    "elements in a property": (
        "PUT",
        "/new",
        entry(queue("<UserMetadata><b/></UserMetadata>")),
        400,
    ),
    "a policy without rights": (
        "PUT",
        "/new",
        entry(
            "<QueueDescription><AuthorizationRules><AuthorizationRule><KeyName>k</KeyName>"
            "</AuthorizationRule></AuthorizationRules></QueueDescription>"
        ),
        400,
    ),
    "an unknown right": (
        "PUT",
        "/new",
        entry(
            "<QueueDescription><AuthorizationRules><AuthorizationRule><KeyName>k</KeyName><Rights>"
            "<AccessRights>Own</AccessRights></Rights></AuthorizationRule></AuthorizationRules>"
            "</QueueDescription>"
        ),
        400,
    ),
    "an unknown filter": (
        "PUT",
        "/t/Subscriptions/s/Rules/new",
        entry("<RuleDescription><Filter i:type='LuaFilter'/></RuleDescription>"),
        400,
    ),
    "an unknown action": (
        "PUT",
        "/t/Subscriptions/s/Rules/new",
        entry("<RuleDescription><Action i:type='Shell'/></RuleDescription>"),
        400,
    ),
    "a rule of another name": (
        "PUT",
        "/t/Subscriptions/s/Rules/new",
        entry("<RuleDescription><Name>other</Name></RuleDescription>"),
        400,
    ),
    "a value without a name": (
        "PUT",
        "/t/Subscriptions/s/Rules/new",
        entry(
            "<RuleDescription><Filter i:type='CorrelationFilter'><Properties>"
            "<KeyValueOfstringanyType><Value>x</Value></KeyValueOfstringanyType></Properties>"
            "</Filter></RuleDescription>"
        ),
        400,
    ),
    "not a number": (
        "PUT",
        "/t/Subscriptions/s/Rules/new",
        entry(
            "<RuleDescription><Filter i:type='CorrelationFilter'><Properties>"
            "<KeyValueOfstringanyType><Key>k</Key><Value i:type='x:double'>NaN</Value>"
            "</KeyValueOfstringanyType></Properties></Filter></RuleDescription>"
        ),
        400,
    ),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), HOSTILE.values(), ids=HOSTILE)
async def test_hostile_requests_change_nothing(
    bench: ManagementBench, method: str, path: str, body: bytes, status: int
) -> None:
    bench.catalog.create("q", QueueSpec())
    bench.catalog.create("t", TopicSpec())
    bench.catalog.create("t/Subscriptions/s", SubscriptionSpec())
    before = bench.catalog.entities()
    answer = await bench.ask(method, path, body)
    assert answer.status == status
    assert answer.root.tag == "Error"
    assert "TrackingId:" in answer.text
    assert len(answer.body) < 8_000
    assert bench.catalog.entities() == before


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("api-version=2021-05&$skip=-1", 400),
        ("api-version=2021-05&$top=-5", 400),
        ("api-version=2021-05&$top=0", 400),
        ("api-version=2021-05&$skip=x", 400),
        ("api-version=2021-05&$skip=99999999999999999999", 400),
        ("api-version=2021-05&$skip=%D9%A1", 400),
        ("api-version=2021-05&$filter=name", 400),
        ("api-version=2021-05&$orderby=name", 400),
        ("api-version=2021-05&$skip=9999999999&$top=9999999999", 200),
        ("api-version=2021-05&unknown=1&timeout=60", 200),
        ("api-version=%3Cscript%3E", 200),
        ("api-version=", 200),
    ],
)
async def test_parameters(bench: ManagementBench, query: str, status: int) -> None:
    bench.catalog.create("q", QueueSpec())
    answer = await bench.ask("GET", "/$Resources/queues", query=query)
    assert answer.status == status
    assert answer.root is not None  # well-formed, whatever was sent


@pytest.mark.parametrize("host", ["", "a b", "<x>", "h/p", "u@h", "h:port", "[::1", "h" * 300])
async def test_hosts_that_are_none(bench: ManagementBench, host: str) -> None:
    answer = await bench.ask("GET", "/$Resources/queues", headers={"host": host})
    assert answer.status == 400


@pytest.mark.parametrize("host", ["localhost", "h.example:1", "[::1]", "[::1]:5300", "127.0.0.1:9"])
async def test_hosts(bench: ManagementBench, host: str) -> None:
    bench.catalog.create("q", QueueSpec())
    answer = await bench.ask("GET", "/q", headers={"host": host})
    assert f"<id>https://{host}/q?api-version=2021-05</id>" in answer.text


@pytest.mark.parametrize(
    ("header", "value"),
    [("if-match", '"etag"'), ("if-match", ""), ("if-none-match", '"etag"')],
)
async def test_conditions_that_are_not_known(
    bench: ManagementBench, header: str, value: str
) -> None:
    bench.catalog.create("q", QueueSpec())
    answer = await bench.ask("PUT", "/q", entry(QUEUE), headers={header: value})
    assert (answer.status, "SubCode=41200" in answer.text) == (412, True)


@pytest.mark.rule("ERR-20", "QTA-11", "QTA-12")
async def test_a_topic_that_is_full() -> None:
    few = replace(
        EMULATOR,
        subscriptions_per_topic_max=1,
        sql_filters_per_topic_max=1,
        correlation_filters_per_topic_max=1,
    )
    bench = ManagementBench(few)
    await bench.put("/t", TOPIC)
    await bench.put("/t/Subscriptions/s", SUBSCRIPTION)
    sql = rule("<Filter i:type='SqlFilter'><SqlExpression>a = 1</SqlExpression></Filter>")
    correlation = rule("<Filter i:type='CorrelationFilter'><Label>a</Label></Filter>")
    for path, description, code in (
        ("/t/Subscriptions/s2", SUBSCRIPTION, 40503),
        ("/t/Subscriptions/s/Rules/a", sql, None),
        ("/t/Subscriptions/s/Rules/b", sql, 40501),
        ("/t/Subscriptions/s/Rules/c", correlation, None),
        ("/t/Subscriptions/s/Rules/d", correlation, 40502),
    ):
        answer = await bench.put(path, description)
        assert answer.status == (201 if code is None else 403), path
        assert code is None or f"SubCode={code}." in answer.text
    bench.catalog.close()


# --- what is too long -------------------------------------------------------------------------


async def test_an_announced_length_is_refused_before_a_byte_is_read(
    bench: ManagementBench,
) -> None:
    taken: list[int] = []
    for length in (str(BODY_BYTES_MAX + 1), "9" * 40, "-1", "x"):
        answer = await bench.ask(
            "PUT", "/q", _counted(taken, 3), headers={"content-length": length}
        )
        assert answer.status == 413
    assert (taken, bench.paths()) == ([], [])


async def test_an_endless_body_is_cut_off(bench: ManagementBench) -> None:
    taken: list[int] = []
    answer = await bench.ask("PUT", "/q", _counted(taken, 10_000))
    assert answer.status == 413
    assert sum(taken) <= BODY_BYTES_MAX + 64 * 1024
    assert bench.paths() == []


async def test_a_body_that_does_not_come(
    bench: ManagementBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "BODY_SECONDS_MAX", 0.0)
    answer = await bench.ask("PUT", "/q", _silence())
    assert (answer.status, bench.paths()) == (408, [])


async def test_without_rights_no_body_is_read(bench: ManagementBench) -> None:
    taken: list[int] = []
    chunked = {"transfer-encoding": "chunked"}
    answer = await bench.ask("PUT", "/q", _counted(taken, 10), headers=chunked, token=None)
    assert (answer.status, taken) == (401, [])
    assert answer.headers["connection"] == "close"


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


def _counted(taken: list[int], count: int) -> Iterator[bytes]:
    for _ in range(count):
        taken.append(64 * 1024)
        yield b" " * (64 * 1024)
