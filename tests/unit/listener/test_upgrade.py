"""The opening handshake: what makes a WebSocket of an HTTP connection, and what does not."""

import pytest

from partibus.listener.upgrade import answer

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
HEAD = [
    (b"host", b"localhost"),
    (b"connection", b"Upgrade"),
    (b"upgrade", b"websocket"),
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-key", KEY),
    (b"sec-websocket-protocol", b"AMQPWSB10"),
]


def without(name: bytes) -> list[tuple[bytes, bytes]]:
    return [header for header in HEAD if header[0] != name]


def given(name: bytes, *values: bytes) -> list[tuple[bytes, bytes]]:
    return without(name) + [(name, value) for value in values]


def test_the_answer_proves_that_the_request_was_read() -> None:
    judged = answer(b"GET", b"1.1", HEAD)
    assert judged.is_accepted
    lines = judged.data.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 101 Switching Protocols"
    # The example of RFC 6455, section 1.3.
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in lines
    assert b"sec-websocket-protocol: AMQPWSB10" in lines
    assert lines[-2:] == [b"", b""]


@pytest.mark.parametrize(
    "protocols", [[b"AMQPWSB10"], [b"mqtt, AMQPWSB10"], [b"mqtt", b" AMQPWSB10 "]]
)
def test_the_sub_protocol_is_one_of_those_offered(protocols: list[bytes]) -> None:
    assert answer(b"GET", b"1.1", given(b"sec-websocket-protocol", *protocols)).is_accepted


@pytest.mark.parametrize(
    ("offered", "taken"),
    [(b"amqp", b"amqp"), (b"mqtt, amqp", b"amqp"), (b"amqp, AMQPWSB10", b"AMQPWSB10")],
)
def test_the_registered_name_of_the_sub_protocol(offered: bytes, taken: bytes) -> None:
    """Go's client offers the name that AMQP has at IANA; the answer must be what was offered."""
    judged = answer(b"GET", b"1.1", given(b"sec-websocket-protocol", offered))
    assert judged.is_accepted
    assert b"sec-websocket-protocol: " + taken + b"\r\n" in judged.data


def test_extensions_are_not_taken() -> None:
    head = [*HEAD, (b"sec-websocket-extensions", b"permessage-deflate")]
    judged = answer(b"GET", b"1.1", head)
    assert judged.is_accepted
    assert b"extensions" not in judged.data


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [
        (given(b"sec-websocket-protocol", b"mqtt"), b"400", b"AMQPWSB10"),
        (given(b"sec-websocket-protocol", b"\xff\xfe"), b"400", b"AMQPWSB10"),
        (without(b"sec-websocket-protocol"), b"400", b"AMQPWSB10"),
        (given(b"sec-websocket-version", b"8"), b"426", b"sec-websocket-version: 13"),
        (given(b"sec-websocket-version", b"13", b"13"), b"426", b"sec-websocket-version: 13"),
        (without(b"sec-websocket-version"), b"426", b"sec-websocket-version: 13"),
        (without(b"sec-websocket-key"), b"400", b"16 bytes"),
        (given(b"sec-websocket-key", b"c2hvcnQ="), b"400", b"16 bytes"),
        (given(b"sec-websocket-key", b"not base64!"), b"400", b"16 bytes"),
        (given(b"sec-websocket-key", KEY, KEY), b"400", b"16 bytes"),
    ],
)
def test_a_wrong_head_is_refused_in_words(
    headers: list[tuple[bytes, bytes]], status: bytes, word: bytes
) -> None:
    judged = answer(b"GET", b"1.1", headers)
    assert not judged.is_accepted
    assert judged.data.startswith(b"HTTP/1.1 " + status)
    assert word in judged.data
    assert b"connection: close" in judged.data


@pytest.mark.parametrize(("method", "version"), [(b"POST", b"1.1"), (b"GET", b"1.0")])
def test_only_get_and_http_1_1(method: bytes, version: bytes) -> None:
    assert not answer(method, version, HEAD).is_accepted
