"""Telling protocols apart by their first bytes, in whatever pieces these arrive."""

import pytest

from partibus.listener.sniff import OPENINGS, Traffic, sniff


@pytest.mark.parametrize(
    ("first", "traffic"),
    [
        (b"", Traffic.UNDECIDED),
        (b"A", Traffic.UNDECIDED),
        (b"AMQ", Traffic.UNDECIDED),
        (b"AMQP", Traffic.AMQP),
        (b"AMQP\x00\x00\x09\x01", Traffic.AMQP),
        (b"AMQP\x03\x01\x00\x00\x00", Traffic.AMQP),
        (b"\x16", Traffic.TLS),
        (b"\x16\x03\x01\x02\x00", Traffic.TLS),
        (b"G", Traffic.UNDECIDED),
        (b"GET", Traffic.UNDECIDED),
        (b"GET / HTTP/1.1\r\n", Traffic.HTTP),
        (b"P", Traffic.UNDECIDED),
        (b"PUT /queue HTTP/1.1", Traffic.HTTP),
        (b"POST /queue/messages", Traffic.HTTP),
        (b"PRI * HTTP/2.0", Traffic.UNKNOWN),
        (b"AMXP", Traffic.UNKNOWN),
        (b"get /", Traffic.UNKNOWN),
        (b"GETX", Traffic.UNKNOWN),
        (b"\x00", Traffic.UNKNOWN),
        (b"SSH-2.0", Traffic.UNKNOWN),
    ],
)
def test_the_first_bytes_decide(first: bytes, traffic: Traffic) -> None:
    assert sniff(first) is traffic


@pytest.mark.parametrize("opening", [opening for opening, _ in OPENINGS])
def test_every_part_of_an_opening_waits_for_the_rest(opening: bytes) -> None:
    for length in range(len(opening)):
        assert sniff(opening[:length]) is Traffic.UNDECIDED
    assert sniff(opening) is not Traffic.UNDECIDED


def test_no_opening_is_the_beginning_of_another() -> None:
    openings = [opening for opening, _ in OPENINGS]
    for one in openings:
        assert [other for other in openings if other.startswith(one)] == [one]
