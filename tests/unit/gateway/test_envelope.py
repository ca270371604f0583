"""A message keeps what its sender wrote and gains what only the broker may write."""

import uuid

import pytest

from partibus.amqp.encode import encode_value
from partibus.amqp.properties import MessageProperties
from partibus.amqp.sections import (
    annotation_items,
    decode_application_properties,
    decode_properties,
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
    parse_sections,
)
from partibus.amqp.types import Symbol, Timestamp
from partibus.domain.errors import ArgumentError, InvalidOperation, MalformedMessage
from partibus.fragment.message import Held, MessageState, Overlay
from partibus.gateway.envelope import overlay_pairs, to_delivery, to_peeked, to_stored

DATA = b"\x00\x53\x75\xa0\x05hello"
TOKEN = uuid.uuid4().bytes


def message(
    annotations: dict[str, object] | None = None,
    properties: MessageProperties | None = None,
    application: dict[str, object] | None = None,
    ttl_ms: int = -1,
) -> bytes:
    given = annotations or {}
    pairs = b"".join(encode_value(Symbol(k)) + encode_value(v) for k, v in given.items())
    return (
        encode_header(True, 7, ttl_ms, 0)
        + encode_annotations(pairs, len(given))
        + encode_properties(properties or MessageProperties(message_id="m-1"))
        + encode_application_properties(application or {})
        + DATA
    )


def held(**changes: object) -> Held:
    made = Held(5, 0, 0, 1_000, 0, 2, None)
    made.locked_until_ms = 9_000
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def delivered(payload: bytes, message_held: Held | None = None, token: bytes = TOKEN) -> bytes:
    return to_delivery(to_stored(payload).body, message_held or held(), 77, token)


def test_the_bare_message_goes_through_byte_for_byte() -> None:
    payload = message(application={"n": 1, "s": "x"})
    out = delivered(payload)
    before, after = parse_sections(payload), parse_sections(out)
    assert out[after.bare_offset :] == payload[before.bare_offset :]


def test_the_broker_writes_header_and_annotations() -> None:
    out = delivered(message({"x-opt-partition-key": "k", "custom": 3}))
    sections = parse_sections(out)
    assert (sections.durable, sections.priority, sections.delivery_count) == (True, 7, 2)
    items = annotation_items(sections)
    assert items["x-opt-sequence-number"] == 77
    assert items["x-opt-enqueued-time"] == Timestamp(1_000)
    assert items["x-opt-locked-until"] == Timestamp(9_000)
    assert items["x-opt-partition-key"] == "k"
    assert items["custom"] == 3
    assert TOKEN in out[: sections.bare_offset]


def test_without_a_lock_nothing_speaks_of_one() -> None:
    out = delivered(message(), token=b"")
    assert "x-opt-locked-until" not in annotation_items(parse_sections(out))
    assert b"x-opt-lock-token" not in out


def test_a_senders_words_on_what_only_the_broker_sets_are_ignored() -> None:
    out = delivered(
        message({"x-opt-sequence-number": 1, "x-opt-locked-until": Timestamp(1), "keep": "me"})
    )
    items = annotation_items(parse_sections(out))
    assert items["x-opt-sequence-number"] == 77
    assert items["keep"] == "me"
    assert out.count(b"x-opt-locked-until") == 1


@pytest.mark.rule("MSG-2")
def test_many_annotations_need_the_wide_form() -> None:
    given = {f"key-{n}": "v" * 20 for n in range(200)}
    items = annotation_items(parse_sections(delivered(message(given))))
    assert {key: items[key] for key in given} == given


def test_a_message_without_an_id_gets_one() -> None:
    out = delivered(message(properties=MessageProperties(subject="s")))
    properties = decode_properties(out, parse_sections(out))
    assert isinstance(properties.message_id, str) and len(properties.message_id) == 32
    assert properties.subject == "s"
    bare = delivered(DATA)
    assert decode_properties(bare, parse_sections(bare)).message_id


def test_expiry_is_told_as_the_broker_sees_it() -> None:
    out = delivered(message(ttl_ms=99_999), held(expires_ms=31_000))
    sections = parse_sections(out)
    assert sections.ttl_ms == 30_000
    assert decode_properties(out, sections).absolute_expiry_time_ms == 31_000


def test_changed_properties_and_reasons_are_laid_over() -> None:
    overlay = Overlay(overlay_pairs({"n": 2, "new": "x"}), "why", "because").merged(
        Overlay(overlay_pairs({"new": "y"}))
    )
    out = delivered(message(application={"n": 1, "old": True}), held(overlay=overlay))
    sections = parse_sections(out)
    assert decode_application_properties(out, sections) == {
        "n": 2,
        "old": True,
        "new": "y",
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "because",
    }
    assert out.endswith(DATA)


def test_a_peeked_message_tells_its_state() -> None:
    stored = to_stored(message()).body
    out = to_peeked(stored, held(state=MessageState.SCHEDULED), 3)
    assert annotation_items(parse_sections(out))["x-opt-message-state"] == 2


def test_keys_and_times_are_read_on_the_way_in() -> None:
    annotations = {"x-opt-partition-key": "k", "x-opt-scheduled-enqueue-time": Timestamp(123)}
    new = to_stored(message(annotations, ttl_ms=50))
    assert (new.partition_key, new.scheduled_ms, new.ttl_ms) == ("k", 123, 50)
    new = to_stored(message(properties=MessageProperties(message_id="m", group_id="s")))
    assert (new.session_id, new.partition_key) == ("s", None)


@pytest.mark.parametrize(
    ("payload", "error", "text"),
    [
        (b"\x00\x53", MalformedMessage, "well-formed"),
        (message(properties=MessageProperties(message_id="x" * 129)), ArgumentError, "129"),
        (
            message(properties=MessageProperties(message_id="m", group_id="x" * 129)),
            ArgumentError,
            "129",
        ),
        (message({"x-opt-partition-key": "x" * 129}), ArgumentError, "129"),
        (
            message({"x-opt-partition-key": "a"}, MessageProperties(message_id="m", group_id="b")),
            InvalidOperation,
            "'a' differs from the session id 'b'",
        ),
        (message(application={"big": "x" * 70_000}), ArgumentError, "65536"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_reason(
    payload: bytes, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        to_stored(payload)


@pytest.mark.rule("MSG-2", "DEF-2", "SCH-4")
@pytest.mark.parametrize("is_locked", [True, False])
def test_a_delivery_tells_any_state_but_active(is_locked: bool) -> None:
    for state in MessageState:
        token = TOKEN if is_locked else b""
        out = delivered(message({"custom": 3}), held(state=state), token)
        items = annotation_items(parse_sections(out))
        assert items["custom"] == 3
        shown = None if state is MessageState.ACTIVE else state
        assert items.get("x-opt-message-state") == shown
