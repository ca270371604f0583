"""What is sent in the place of a dead letter: counted, corrected, delayed, and in its fragment."""

import pytest

from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.pipelines.deadletters.rewriting import (
    Destination,
    NotFixable,
    own_entity,
    patched,
    rewritten,
)
from pyspark_servicebus.pipelines.deadletters.rules import ATTEMPTS_PROPERTY, Rule

NOW_MS = 1_800_000_000_000
FRAGMENTS = 16
PLAIN = Destination(path="orders", fragments=1, is_own=True, detects_duplicates=False)
PARTED = Destination(path="orders", fragments=FRAGMENTS, is_own=True, detects_duplicates=False)
UNIQUE = Destination(path="orders", fragments=FRAGMENTS, is_own=True, detects_duplicates=True)
DEATH = {"DeadLetterReason": "sour", "DeadLetterErrorDescription": "milk"}


def dead(fragment: int = 0, number: int = 7, **fields: object) -> IncomingMessage:
    properties = {**DEATH, **fields.pop("properties", {})}  # type: ignore[dict-item]
    message = OutgoingMessage(properties=properties, **fields)  # type: ignore[arg-type]
    found = IncomingMessage(message.encode())
    found.annotations["x-opt-sequence-number"] = fragment << 48 | number
    return found


def sent(message: IncomingMessage, goal: Destination = PLAIN, **rule: object) -> IncomingMessage:
    made = Rule(**({"name": "r", "action": "resubmit"} | rule))  # type: ignore[arg-type]
    return IncomingMessage(rewritten(message, made, "orders", goal, NOW_MS))


def test_it_is_counted_and_otherwise_the_same() -> None:
    found = sent(
        dead(
            body=b"hi",
            message_id="m",
            session_id="s",
            subject="x",
            time_to_live_ms=5000,
            properties={"a": 1},
        )
    )
    assert found.application_properties == {"a": 1, ATTEMPTS_PROPERTY: 1}
    assert (found.properties.message_id, found.properties.group_id) == ("m", "s")
    assert (found.properties.subject, found.time_to_live_ms) == ("x", 5000)
    assert found.body() == ("data", b"hi")
    assert found.scheduled_ms is None
    assert found.sequence_number == 0
    assert sent(found).application_properties[ATTEMPTS_PROPERTY] == 2


def test_properties_and_body_are_corrected() -> None:
    found = sent(
        dead(body=b'{"a": {"b": 1, "c": 2}, "d": 3}', properties={"old": 1, "keep": 2}),
        action="fix",
        set_properties={"currency": "EUR"},
        remove_properties=("old", "never"),
        body_merge={"a": {"b": None, "x": "\u00e9"}, "d": [1]},
    )
    told = {"keep": 2, "currency": "EUR", ATTEMPTS_PROPERTY: 1}
    assert found.application_properties == told
    assert found.body() == ("data", '{"a":{"c":2,"x":"\u00e9"},"d":[1]}'.encode())


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        (b'{"a":"b"}', {"a": "c"}, b'{"a":"c"}'),
        (b'{"a":"b"}', {"b": "c"}, b'{"a":"b","b":"c"}'),
        (b'{"a":"b","b":"c"}', {"a": None}, b'{"b":"c"}'),
        (b'{"a":["b"]}', {"a": "c"}, b'{"a":"c"}'),
        (b'{"a":"c"}', {"a": ["b"]}, b'{"a":["b"]}'),
        (b'{"a":[{"b":"c"}]}', {"a": [1]}, b'{"a":[1]}'),
        (b'["a","b"]', ["c", "d"], b'["c","d"]'),
        (b'{"a":"b"}', ["c"], b'["c"]'),
        (b'{"e":null}', {"a": 1}, b'{"e":null,"a":1}'),
        (b"[1,2]", {"a": "b", "c": None}, b'{"a":"b"}'),
        (b"{}", {"a": {"bb": {"ccc": None}}}, b'{"a":{"bb":{}}}'),
    ],
)
def test_merge_patches_as_the_standard_has_them(
    target: bytes, patch: object, result: bytes
) -> None:
    """RFC 7396, appendix A."""
    assert patched(target, patch) == result


def test_a_body_that_is_no_json_cannot_be_fixed() -> None:
    with pytest.raises(NotFixable, match="not JSON"):
        sent(dead(body=b"hello"), action="fix", body_merge={"a": 1})
    with pytest.raises(NotFixable, match="AMQP value"):
        sent(dead(body="{}", body_type="value"), action="fix", body_merge={"a": 1})


def test_a_delay_grows_with_the_attempts() -> None:
    rule = {"delay_ms": 1000, "backoff": 3.0}
    first = sent(dead(), **rule)
    second = sent(dead(properties={ATTEMPTS_PROPERTY: 1}), **rule)
    assert (first.scheduled_ms, second.scheduled_ms) == (NOW_MS + 1000, NOW_MS + 3000)


def test_what_is_parked_keeps_why_it_died_and_is_not_counted() -> None:
    goal = Destination(path="parked", fragments=1, is_own=False, detects_duplicates=False)
    found = sent(dead(), goal, action="park")
    assert found.application_properties == {
        "x-partibus-dead-letter-reason": "sour",
        "x-partibus-dead-letter-description": "milk",
        "x-partibus-dead-letter-source": "orders",
    }


@pytest.mark.parametrize("fragment", range(FRAGMENTS))
def test_what_has_no_key_goes_back_to_its_fragment(fragment: int) -> None:
    found = sent(dead(fragment), PARTED)
    assert found.partition_key is not None
    assert fragment_index(found.partition_key, FRAGMENTS) == fragment


def test_what_has_no_key_is_spread_over_another_partitioned_queue() -> None:
    goal = Destination(path="parked", fragments=FRAGMENTS, is_own=False, detects_duplicates=False)
    found = [sent(dead(1, number), goal, action="park").partition_key for number in range(100)]
    assert None not in found
    assert {fragment_index(str(key), FRAGMENTS) for key in found} == set(range(FRAGMENTS))
    assert sent(dead(1, partition_key="mine"), goal, action="park").partition_key == "mine"


def test_a_key_stays() -> None:
    assert sent(dead(3, partition_key="mine"), PARTED).partition_key == "mine"
    assert sent(dead(3, session_id="mine"), PARTED).partition_key is None
    assert sent(dead(3)).partition_key is None


@pytest.mark.parametrize("fragment", range(FRAGMENTS))
def test_where_duplicates_are_detected_it_gets_a_new_id_in_its_fragment(fragment: int) -> None:
    found = sent(dead(fragment, message_id="m"), UNIQUE)
    new = str(found.properties.message_id)
    assert new.startswith("m#1")
    assert found.partition_key is None
    assert fragment_index(new, FRAGMENTS) == fragment


def test_ids_as_the_rule_says() -> None:
    assert sent(dead(message_id="m"), UNIQUE, message_id="keep").properties.message_id == "m"
    assert sent(dead(message_id="m"), message_id="new").properties.message_id == "m#1"
    again = sent(dead(message_id="m#1", properties={ATTEMPTS_PROPERTY: 1}), message_id="new")
    assert again.properties.message_id == "m#1#2"
    long = str(sent(dead(message_id="m" * 128), message_id="new").properties.message_id)
    assert len(long) <= 128


def test_where_messages_of_a_path_are_sent_to() -> None:
    assert own_entity("orders/new") == "orders/new"
    assert own_entity("events/Subscriptions/all") == "events"
