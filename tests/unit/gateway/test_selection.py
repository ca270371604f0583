"""The selector of a topic: what rules see of a stored message, and what actions make of it."""

import datetime
import uuid

import pytest

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    MessageProperties,
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
)
from partibus.amqp.codec.types import (
    Decimal32,
    Described,
    Float,
    Int,
    Symbol,
    Timestamp,
    UByte,
    UInt,
)
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import EntityKind, FilterType, RuleSpec, SubscriptionSpec
from partibus.domain.limits import HEADER_BYTES_MAX
from partibus.fragment.message import Held
from partibus.fragment.topics.selection import NOBODY, Selection
from partibus.gateway.selection import TopicSelector
from partibus.message.envelope import to_delivery, to_stored
from partibus.message.view import StoredView, plain
from partibus.rules.view import ABSENT, SYSTEM_NAMES

NOW_MS = 1_700_000_000_000
BODY = b"\x00\x53\x75\xa0\x04body"
KEY = 5


def stored(
    properties: MessageProperties | None = None,
    application: dict[str, object] | None = None,
    annotations: dict[str, object] | None = None,
    ttl_ms: int = -1,
) -> bytes:
    pairs = b"".join(
        encode_value(Symbol(key)) + encode_value(value)
        for key, value in (annotations or {}).items()
    )
    payload = (
        encode_header(True, 4, ttl_ms, 0)
        + encode_annotations(pairs, len(annotations or {}))
        + encode_properties(properties or MessageProperties(message_id="m"))
        + encode_application_properties(application or {})
        + BODY
    )
    return to_stored(payload).body


def sql(expression: str, action: str = "", name: str = "r") -> RuleSpec:
    return RuleSpec(name=name, filter_type=FilterType.SQL, sql_expression=expression, action=action)


def record(*rules: RuleSpec, key: int = KEY, mourns: bool = True) -> EntityRecord:
    spec = SubscriptionSpec(rules=rules, dead_lettering_on_filter_evaluation_exceptions=mourns)
    return EntityRecord(
        entity_id=key,
        path=f"t/Subscriptions/s{key}",
        kind=EntityKind.SUBSCRIPTION,
        spec=spec,
        fragments=(),
        created_ms=0,
        updated_ms=0,
    )


def select(body: bytes, *records: EntityRecord) -> Selection:
    return TopicSelector(lambda: records).select(body, 2, 7, NOW_MS)


# --- the view ---------------------------------------------------------------------------------


@pytest.mark.rule("SQL-13", "FLT-6")
def test_every_system_property_is_seen() -> None:
    identity = uuid.uuid4()
    properties = MessageProperties(
        message_id=identity,
        to="to",
        subject="label",
        reply_to="reply",
        correlation_id=b"\xff\x02",
        content_type="text/plain",
        group_id="session",
        reply_to_group_id="other",
    )
    annotations = {
        "x-opt-scheduled-enqueue-time": Timestamp(NOW_MS - 1000),
        "x-opt-partition-key": "session",
        "x-opt-via-partition-key": "via",
    }
    body = stored(properties, annotations=annotations, ttl_ms=5_000)
    view = StoredView(body, 2 << 48 | 7, NOW_MS)
    seen = {SYSTEM_NAMES[name]: view.system(name) for name in SYSTEM_NAMES}
    now = datetime.datetime.fromtimestamp(NOW_MS / 1000, datetime.UTC)
    assert seen == {
        "MessageId": str(identity),
        "CorrelationId": "ff02",
        "Label": "label",
        "To": "to",
        "ReplyTo": "reply",
        "SessionId": "session",
        "ReplyToSessionId": "other",
        "ContentType": "text/plain",
        "TimeToLive": datetime.timedelta(seconds=5),
        "EnqueuedTimeUtc": now,
        "EnqueuedSequenceNumber": 2 << 48 | 7,
        "SequenceNumber": 2 << 48 | 7,
        "ScheduledEnqueueTimeUtc": now - datetime.timedelta(seconds=1),
        "ExpiresAtUtc": now + datetime.timedelta(seconds=5),
        "DeliveryCount": 0,
        "PartitionKey": "session",
        "ViaPartitionKey": "via",
        "Size": len(body),
    }
    assert all(type(value) is not Symbol for value in seen.values())


def test_what_a_message_lacks_is_none() -> None:
    view = StoredView(stored(), 1, NOW_MS)
    lacking = [name for name in SYSTEM_NAMES if view.system(name) is None]
    always = {"messageid", "size", "deliverycount", "enqueuedtimeutc"}
    assert set(SYSTEM_NAMES) - set(lacking) == always | {
        "sequencenumber",
        "enqueuedsequencenumber",
    }
    assert view.user("size") is ABSENT
    assert list(view.names()) == []


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (Int(5), 5),
        (UByte(5), 5),
        (Float(0.5), 0.5),
        (Symbol("s"), "s"),
        (True, True),
        (None, None),
        (b"b", "b"),
        (b"\xff", b"\xff"),
        (
            Timestamp(1000),
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        ),
    ],
)
def test_values_have_the_types_of_rules(value: object, seen: object) -> None:
    assert plain(value) == seen
    assert type(plain(value)) is type(seen)


def test_what_rules_do_not_understand_stays_itself() -> None:
    for value in (Decimal32(bytes(4)), Described(Symbol("com.microsoft:uri"), "u")):
        assert plain(value) is value


# --- selection --------------------------------------------------------------------------------


@pytest.mark.rule("FLT-3", "FLT-5", "FLT-7")
def test_without_conditions_nothing_is_decoded() -> None:
    every = TopicSelector(lambda: [record(RuleSpec()), record(key=6), record(RuleSpec(), key=7)])
    assert every.select(b"not a message at all", 0, 1, NOW_MS).shared == [KEY, 7]
    assert TopicSelector(list).select(b"", 0, 1, NOW_MS) is NOBODY


@pytest.mark.rule("FLT-10")
def test_rules_are_compiled_again_when_they_change() -> None:
    records = [record(sql("size > 10"))]
    selector = TopicSelector(lambda: records)
    body = stored(application={"size": UInt(11)})
    assert selector.select(body, 0, 1, NOW_MS).shared == [KEY]
    records[:] = [record(sql("size > 20"))]
    assert selector.select(body, 0, 1, NOW_MS).shared == [KEY]
    selector.changed()
    assert selector.select(body, 0, 1, NOW_MS) is NOBODY


def test_the_session_of_a_stored_message() -> None:
    selector = TopicSelector(list)
    assert selector.session_of(stored()) is None
    assert selector.session_of(stored(MessageProperties(message_id="m", group_id="s"))) == "s"


@pytest.mark.rule("FLT-9", "DLQ-6")
def test_what_cannot_be_evaluated_is_told_with_the_rules_name() -> None:
    body = stored(application={"name": "x"})
    failing = sql("name * 2 > 1", name="odd")
    found = select(body, record(failing), record(failing, key=6, mourns=False))
    assert (found.shared, [failure.key for failure in found.failed]) == ([], [KEY])
    overlay = found.failed[0].overlay
    assert overlay.reason == "FilterException"
    assert "'odd'" in (overlay.description or "")


@pytest.mark.rule("FLT-9", "DLQ-6")
@pytest.mark.parametrize("mourns", [True, False])
def test_an_action_that_fails_is_told_as_such(mourns: bool) -> None:
    body = stored(application={"name": "x"})
    failing = sql("1=1", "SET twice = name * 2", "odd")
    found = select(body, record(failing, mourns=mourns))
    assert found.failure_count == 1
    assert [f.overlay.reason for f in found.failed] == ["RuleActionException"] * mourns
    assert not found.rewritten


@pytest.mark.rule("DLQ-6", "MSG-4")
def test_an_action_that_makes_the_header_too_large() -> None:
    half = "x" * 30_000
    body = stored(application={"a": half})
    assert 2 * len(half) < HEADER_BYTES_MAX
    found = select(body, record(sql("1=1", "SET b = a + 'y'; SET c = a + 'z'", "big")))
    assert [f.overlay.reason for f in found.failed] == ["HeaderSizeExceeded"]
    assert found.failure_count == 0


# --- rewritten copies ---------------------------------------------------------------------------


def rewritten(action: str, body: bytes) -> StoredView:
    ((key, copy),) = select(body, record(sql("1=1", action, "the rule"))).rewritten
    assert key == KEY
    return StoredView(copy.body, 0, NOW_MS)


@pytest.mark.rule("FLT-4", "ACT-4")
def test_edits_of_application_properties() -> None:
    body = stored(application={"Size": Int(3), "gone": 1, "time": Timestamp(5), "kept": "k"})
    action = "SET size = size + 1; REMOVE GONE; SET new = 'n'; SET at = sys.EnqueuedTimeUtc"
    copy = rewritten(action, body)
    assert copy.application == {
        "Size": Int(4),
        "time": Timestamp(5),
        "kept": "k",
        "new": "n",
        "at": Timestamp(NOW_MS),
        "RuleName": "the rule",
    }
    assert type(copy.application["Size"]) is Int
    assert StoredView(body, 0, 0).application["Size"] == 3
    assert copy.parts.bare.endswith(BODY)


def test_a_value_that_does_not_fit_its_old_type_takes_another() -> None:
    body = stored(application={"small": UByte(200)})
    copy = rewritten("SET small = small * 2", body)
    assert copy.application["small"] == 400
    assert type(copy.application["small"]) is int


@pytest.mark.rule("ACT-5")
def test_edits_of_system_properties() -> None:
    body = stored(MessageProperties(message_id="m", reply_to="r", group_id="old"))
    action = (
        "SET sys.MessageId = 'id'; SET sys.CorrelationId = 'c'; SET sys.Label = 'l'; "
        "SET sys.To = 't'; REMOVE sys.ReplyTo; SET sys.SessionId = 'new'; "
        "SET sys.ReplyToSessionId = 'rs'; SET sys.ContentType = 'ct'; "
        "SET sys.PartitionKey = 'new'; SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc"
    )
    ((_, copy),) = select(body, record(sql("1=1", action))).rewritten
    assert copy.session_id == "new"
    view = StoredView(copy.body, 0, NOW_MS)
    found = view.properties
    assert (found.message_id, found.correlation_id, found.subject) == ("id", "c", "l")
    assert (found.to, found.reply_to, found.group_id) == ("t", None, "new")
    assert (found.reply_to_group_id, found.content_type) == ("rs", "ct")
    assert view.annotations == {
        "x-opt-partition-key": "new",
        "x-opt-scheduled-enqueue-time": Timestamp(NOW_MS),
    }


def test_several_rules_make_their_copies_of_the_same_original() -> None:
    body = stored(application={"n": 1})
    rules = [sql("1=1", "SET n = n + 1", name) for name in ("a", "b")]
    found = select(body, record(*rules)).rewritten
    copies = [StoredView(copy.body, 0, 0).application for _, copy in found]
    assert copies == [{"n": 2, "RuleName": "a"}, {"n": 2, "RuleName": "b"}]


@pytest.mark.rule("SEQ-11")
def test_a_copy_tells_the_number_of_its_original() -> None:
    body = stored(application={"n": 1}, annotations={"x-opt-mine": "kept"})
    ((_, copy),) = select(body, record(sql("1=1", "SET n = 2"))).rewritten
    held = Held(9, 0, len(copy.body), NOW_MS, 0, 0, None)
    delivered = to_delivery(copy.body, held, 2 << 48 | 9, b"")
    again = to_stored(delivered, False)
    assert StoredView(again.body, 0, 0).application == {"n": 2, "RuleName": "r"}
    for name, number in (("sequence-number", 9), ("enqueue-sequence-number", 7)):
        key = encode_value(Symbol(f"x-opt-{name}"))
        assert key + b"\x81" + (2 << 48 | number).to_bytes(8, "big") in delivered
    assert b"x-opt-mine" in delivered
