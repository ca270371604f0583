"""Properties as they are typed: one meaning for the verbs that send and those that try rules."""

import datetime
import uuid

import pytest
import typer

from partibus.amqp.codec.types import Described, Int, Timestamp
from partibus.cli.messages.typed_properties import TYPES, read_properties, read_values
from partibus.message.view import plain

ID = "12345678-1234-5678-1234-567812345678"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", "1"),
        ("a=1.5", "1.5"),
        ("a=true", "true"),
        ("a=null", "null"),
        ("a=x=y", "x=y"),
        ("a=", ""),
        ("a='1'", "'1'"),
        ("a:string=1", "1"),
        ("a:int=-1", -1),
        ("a:long=9999999999", 9999999999),
        ("a:double=1", 1.0),
        ("a:bool=TRUE", True),
        ("a:uuid=" + ID, uuid.UUID(ID)),
        ("a:guid=" + ID, uuid.UUID(ID)),
        ("a:time=1970-01-01T00:00:01Z", datetime.datetime(1970, 1, 1, 0, 0, 1, 0, datetime.UTC)),
        ("a:duration=PT1M30S", datetime.timedelta(seconds=90)),
        ("a:duration=-1.02:03:04.5", -datetime.timedelta(1, 4.5, 0, 0, 3, 2)),
        ("a:null=", None),
    ],
)
def test_text_unless_a_type_is_said(text: str, expected: object) -> None:
    (value,) = read_values([text]).values()
    assert (type(value), value) == (type(expected), expected)
    # What is sent is what a rule will see.
    (sent,) = read_properties([text]).values()
    assert (type(plain(sent)), plain(sent)) == (type(expected), expected)


def test_every_type_has_its_place_on_the_wire() -> None:
    words = ["i:int=5", "l:long=5", "t:time=1970-01-01T00:00:01Z", "d:duration=PT1S"]
    sent = read_properties(words)
    assert type(sent["i"]) is Int
    assert type(sent["l"]) is int
    assert sent["t"] == Timestamp(1000)
    duration = sent["d"]
    assert isinstance(duration, Described)
    assert (duration.descriptor, duration.value) == ("com.microsoft:timespan", 10_000_000)


def test_a_name_may_have_a_colon_when_the_type_is_said() -> None:
    assert read_values(["a:b:int=1", "a:b:string=x"]) == {"a:b": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "is not a property"),
        ("=1", "is not a property"),
        (":int=1", "is not a property"),
        ("a:imt=1", "'imt' is not a valid type; the types are string, int"),
        ("a:int=x", "'x' is not a valid int"),
        ("a:int=2147483648", "is not a valid int"),
        ("a:long=9223372036854775808", "is not a valid long"),
        ("a:double=x", "is not a valid double"),
        ("a:bool=1", "is not a valid bool"),
        ("a:time=soon", "is not a valid time"),
        ("a:duration=1h", "is not a valid duration"),
        ("a:uuid=1", "is not a valid uuid"),
        ("a:null=null", "is not a valid null"),
    ],
)
def test_what_is_not_understood(text: str, said: str) -> None:
    for read in (read_values, read_properties):
        with pytest.raises(typer.BadParameter, match=said):
            read([text])


def test_the_help_names_every_type() -> None:
    from partibus.cli.options import PROPERTY_HELP

    unnamed = [name for name in TYPES if name not in PROPERTY_HELP]
    assert unnamed == ["string", "guid"]  # text is the default, and guid is uuid
