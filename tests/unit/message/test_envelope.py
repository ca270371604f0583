"""A message keeps what its sender wrote and gains what only the broker may write."""

import uuid

import pytest

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    annotation_items,
    decode_application_properties,
    decode_properties,
    delivery_annotation_pairs,
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.types import Described, Symbol, Timestamp, UByte, UInt, ULong
from partibus.domain.errors import ArgumentError, InvalidOperation, MalformedMessage
from partibus.fragment.message import Held, MessageState, Overlay
from partibus.message.envelope import Stored, to_delivery, to_peeked, to_stored
from partibus.message.forwarded import Hop, to_forwarded
from partibus.message.overlay import overlay_pairs

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


@pytest.mark.rule("SCH-1")
@pytest.mark.parametrize("at_ms", [2**62, 2**63 - 1, -(2**63), 253_402_300_800_000])
def test_a_time_out_of_range_is_refused_with_the_range(at_ms: int) -> None:
    scheduled = message({"x-opt-scheduled-enqueue-time": Timestamp(at_ms)})
    expiring = message(properties=MessageProperties(absolute_expiry_time_ms=at_ms))
    for payload, name in ((scheduled, "scheduled-enqueue-time"), (expiring, "absolute-expiry")):
        with pytest.raises(ArgumentError, match=rf"{name}.* out of range.*9999-12-31"):
            to_stored(payload)


def test_the_last_moment_of_the_year_9999_and_the_vendor_s_least_are_accepted() -> None:
    last_ms = 253_402_300_799_999
    payload = message({"x-opt-scheduled-enqueue-time": Timestamp(last_ms)})
    assert to_stored(payload).scheduled_ms == last_ms
    payload = message({"x-opt-scheduled-enqueue-time": Timestamp(-62_135_596_800_000)})
    assert to_stored(payload).scheduled_ms == 0


# --- text in other types, delivery annotations, footers ----------------------------------------


@pytest.mark.rule("MSG-2", "SEED-32")
@pytest.mark.parametrize("key", [b"k\xc3\xbc", Symbol("k\u00fc"), "k\u00fc"])
def test_a_key_is_text_in_whichever_type_it_came(key: object) -> None:
    given = {"x-opt-partition-key": key, "x-opt-via-partition-key": key, "own": b"binary"}
    new = to_stored(message(given))
    assert new.partition_key == "k\u00fc"
    items = annotation_items(parse_sections(to_delivery(new.body, held(), 77, TOKEN)))
    assert (items["x-opt-partition-key"], items["x-opt-via-partition-key"]) == ("k\u00fc",) * 2
    assert type(items["x-opt-partition-key"]) is str
    assert items["own"] == b"binary", "what is the sender's own stays as it is"


def test_a_session_id_is_a_string_in_whichever_type_it_came() -> None:
    fields = ["m", *[None] * 9, b"s-1"]
    payload = encode_value(Described(ULong(0x73), fields)) + DATA
    new = to_stored(payload)
    assert new.session_id == "s-1"
    out = to_delivery(new.body, held(), 77, TOKEN)
    assert b"\xa1\x03s-1" in out
    keyed = encode_annotations(encode_value(Symbol("x-opt-partition-key")) + b"\xa0\x03s-1", 1)
    assert to_stored(keyed + payload).partition_key == "s-1"


def test_a_long_session_id_of_bytes_is_refused() -> None:
    fields = ["m", *[None] * 9, b"s" * 129]
    with pytest.raises(ArgumentError):
        to_stored(encode_value(Described(ULong(0x73), fields)) + DATA)


def test_a_time_that_came_as_a_number_is_given_as_a_time() -> None:
    new = to_stored(message({"x-opt-scheduled-enqueue-time": 123_456}))
    assert new.scheduled_ms == 123_456
    items = annotation_items(parse_sections(to_delivery(new.body, held(), 77, TOKEN)))
    assert type(items["x-opt-scheduled-enqueue-time"]) is Timestamp


def test_ids_of_bytes_are_known_by_their_text() -> None:
    as_text = to_stored(message(properties=MessageProperties(message_id="id")), True)
    as_bytes = to_stored(message(properties=MessageProperties(message_id=b"id")), True)
    assert as_text.message_id == as_bytes.message_id == "id"


@pytest.mark.rule("SEED-33")
def test_the_empty_session_id_takes_any_key_beside_it() -> None:
    properties = MessageProperties(message_id="m", group_id="")
    new = to_stored(message({"x-opt-partition-key": "k"}, properties))
    assert (new.session_id, new.partition_key) == ("", "k")


ANNOTATED = encode_value(
    Described(ULong(0x71), {Symbol("hop"): 1, Symbol("x-opt-lock-token"): uuid.uuid4()})
)
FOOTER = encode_value(Described(ULong(0x78), {Symbol("sum"): 7}))


def delivery_annotations(out: bytes) -> dict[object, object]:
    sections = parse_sections(out)
    pairs, count = delivery_annotation_pairs(out, sections)
    items, at = {}, 0
    for _ in range(count):
        key, at = decode_value(pairs, at, len(pairs))
        items[key], at = decode_value(pairs, at, len(pairs))
    return items


@pytest.mark.parametrize(
    "payload",
    [
        ANNOTATED + message()[len(encode_header(True, 7, -1, 0)) :] + FOOTER,
        message() + FOOTER + ANNOTATED,
        FOOTER + ANNOTATED + message(),
    ],
    ids=["second", "last", "any"],
)
@pytest.mark.parametrize("token", [TOKEN, b""], ids=["locked", "deleted"])
def test_delivery_annotations_and_footer_arrive(payload: bytes, token: bytes) -> None:
    stored = to_stored(payload).body
    for out in (
        to_delivery(stored, held(), 77, token),
        to_delivery(stored, held(expires_ms=31_000, overlay=Overlay(reason="why")), 77, token),
        to_delivery(
            to_forwarded(stored, Hop(5, Overlay(reason="why")), False).body, held(), 77, token
        ),
    ):
        items = delivery_annotations(out)
        assert items.pop("hop") == 1
        assert items == ({"x-opt-lock-token": uuid.UUID(bytes=TOKEN)} if token else {})
        assert out.endswith(DATA + FOOTER)
    assert delivery_annotations(to_peeked(stored, held(), 77)) == {"hop": 1}


def test_delivery_annotations_leave_the_header_as_it_was() -> None:
    for durable in (True, False):
        stored = to_stored(encode_header(durable, 3, -1, 0) + ANNOTATED + DATA).body
        sections = parse_sections(to_delivery(stored, held(), 77, TOKEN))
        assert (sections.durable, sections.priority) == (durable, 3)


@pytest.mark.rule("MSG-2")
@pytest.mark.parametrize(
    "fields",
    [
        [None, None, None, None],
        [True, None, None, None],
        [False, UByte(0), None, False],
        [None, UByte(255), None, True],
        [False, UByte(20), UInt(100_000), False],
    ],
)
def test_the_header_says_what_its_sender_said_and_no_more(fields: list[object]) -> None:
    for sent in (fields, fields[:3], fields[:1]):
        stored = to_stored(encode_value(Described(ULong(0x70), sent)) + DATA).body
        for body in (stored, to_forwarded(stored, Hop(5), False).body):
            received, _ = decode_value(to_delivery(body, held(), 77, TOKEN), 0, 40)
            assert isinstance(received, Described)
            assert received.value == [*sent, *[None] * (4 - len(sent)), UInt(2)]


def test_a_message_without_a_header_gets_one_with_its_count_alone() -> None:
    received, _ = decode_value(delivered(DATA), 0, 40)
    assert received == Described(ULong(0x70), [None, None, None, None, UInt(2)])


def test_messages_that_were_stored_before_keep_their_header() -> None:
    """Until the flags came, the byte was 0 or 1 and durable and priority were always written."""
    stored = bytearray(to_stored(message()).body)
    for durable in (0, 1):
        stored[1] = durable
        received, _ = decode_value(to_delivery(bytes(stored), held(), 77, TOKEN), 0, 40)
        expected = [durable == 1, UByte(7), None, None, UInt(2)]
        assert received == Described(ULong(0x70), expected)


def test_a_received_message_that_is_sent_on_stores_no_delivery_annotations() -> None:
    token = encode_value(Described(ULong(0x71), {Symbol("x-opt-lock-token"): uuid.uuid4()}))
    resent, new = to_stored(message() + token).body, to_stored(message()).body
    assert Stored(resent).bare == Stored(new).bare
    assert delivery_annotations(to_delivery(resent, held(), 77, b"")) == {}


def test_delivery_annotations_count_as_header_wherever_they_stand() -> None:
    large = encode_value(Described(ULong(0x71), {Symbol("note"): "x" * 70_000}))
    for payload in (large + DATA, DATA + large):
        with pytest.raises(ArgumentError):
            to_stored(payload)


def test_an_odd_delivery_annotation_is_kept() -> None:
    odd = b"\x00\x53\x71\xc1\x03\x02\x45\x40"  # an empty list as the key
    assert delivery_annotations_section(delivered(DATA + odd)).endswith(b"\x45\x40")


def delivery_annotations_section(out: bytes) -> bytes:
    sections = parse_sections(out)
    return out[sections.delivery_offset : sections.delivery_end]


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x53\x77" + b"\xc0\x81\x01" * 70 + b"\x40",
        b"\x00\x53\x77\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
    ],
)
def test_a_body_that_would_harm_its_reader_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        to_stored(body)


def test_a_received_message_carries_what_the_service_sends_and_no_more() -> None:
    out = delivered(message())
    assert set(annotation_items(parse_sections(out))) == {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
    }
    deleted = delivered(message(), token=b"")
    assert set(annotation_items(parse_sections(deleted))) == {
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
    }


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


NO_TEXT = b"\xa1\x02\xd0n"
"""A string that is not UTF-8."""
ID = b"\xa1\x01m"


@pytest.mark.parametrize(
    "head",
    [
        b"\x00\x53\x73\xc0\x08\x02" + ID + b"\x40" + b"\xa1\x01\xff",
        b"\x00\x53\x73\xc0\x0a\x04" + ID + b"\x40\x40" + NO_TEXT,
        b"\x00\x53\x73\xc0\x08\x04" + ID + b"\x40\x40" + b"\x54\x05",
        b"\x00\x53\x74\xc1\x08\x02" + NO_TEXT + b"\xa1\x01v",
        b"\x00\x53\x74\xc1\x08\x02" + b"\xa1\x01k" + NO_TEXT,
        b"\x00\x53\x74\xc1\x09\x02" + b"\xa1\x01k" + b"\x73\x00\x11\x00\x00",
        b"\x00\x53\x72\xc1\x08\x02" + b"\xa3\x02\xd0n" + b"\xa1\x01v",
    ],
    ids=["user id", "subject", "type", "name", "value", "character", "annotation"],
)
def test_what_no_receiver_could_read_is_refused_to_its_sender(head: bytes) -> None:
    with pytest.raises(MalformedMessage):
        to_stored(head + b"\x00\x53\x75\xa0\x01b")


def test_text_beyond_ascii_is_taken() -> None:
    properties = MessageProperties(message_id="größe", subject="色", group_id="😀")
    applied = encode_application_properties({"größe": "色"})
    stored = to_stored(encode_properties(properties) + applied + b"\x00\x53\x75\xa0\x01b")
    assert stored.session_id == "😀"
