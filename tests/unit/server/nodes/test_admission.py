"""Nodes that get their certificates by a token, and what a token is not good for."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from partibus.cluster.peer_certificates import CA_FILE, CA_KEY_FILE, PeerCertificates
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.errors import ArgumentError, BusError, ConfigError
from partibus.server.nodes.admission import (
    TOKEN_PREFIX,
    Admission,
    JoinAnswer,
    JoinToken,
    join_by_token,
    read_token,
)
from partibus.server.nodes.certificates import make_cluster, node_name
from partibus.testing.clock import ManualClock

HOST = "127.0.0.1"
SOON_MS = 3_600_000


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    make_cluster(tmp_path / "authority", "node-1", SystemClock())
    return tmp_path / "authority"


@asynccontextmanager
async def admitting(authority: Path, clock: Clock) -> AsyncIterator[JoinToken]:
    admission = Admission(authority, clock.now_ms() + SOON_MS, clock)
    async with await admission.serve(HOST, 0) as server:
        port = int(server.sockets[0].getsockname()[1])
        yield JoinToken(HOST, port, admission.until_ms, admission.secret)


async def test_a_node_joins_by_a_token(authority: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    async with admitting(authority, SystemClock()) as token:
        await join_by_token(node, token.text(), "node-2", SystemClock())
    assert node_name(node) == "node-2"
    assert (node / CA_FILE).read_bytes() == (authority / CA_FILE).read_bytes()
    assert not (node / CA_KEY_FILE).exists()
    PeerCertificates(node)  # key and certificate fit


async def test_a_token_expires_by_the_clock_of_the_authority(
    authority: Path, tmp_path: Path
) -> None:
    clock = ManualClock(SystemClock().now_ms())
    async with admitting(authority, clock) as token:
        clock.advance_ms(SOON_MS)
        with pytest.raises(ArgumentError, match="refused the request: The token has expired"):
            await join_by_token(tmp_path / "node", token.text(), "node-2", SystemClock())
    assert not (tmp_path / "node").exists()


async def test_a_token_that_has_expired_is_not_tried(tmp_path: Path) -> None:
    token = JoinToken(HOST, 1, 5, b"secret")
    with pytest.raises(ArgumentError, match="has expired"):
        await join_by_token(tmp_path / "node", token.text(), "node-2", SystemClock())


async def test_who_does_not_know_the_secret_gets_nothing(authority: Path, tmp_path: Path) -> None:
    async with admitting(authority, SystemClock()) as token:
        guessed = msgspec.structs.replace(token, secret=bytes(32))
        with pytest.raises(ArgumentError, match="by another `partibus cluster admit`"):
            await join_by_token(tmp_path / "node", guessed.text(), "node-2", SystemClock())
    assert not (tmp_path / "node").exists()


async def test_who_poses_as_the_authority_is_noticed(authority: Path, tmp_path: Path) -> None:
    false = JoinAnswer(b"certificate", b"authorities", bytes(32))

    async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\n")
        writer.write(msgspec.json.encode(false) + b"\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pose, HOST, 0) as server:
        port = int(server.sockets[0].getsockname()[1])
        token = JoinToken(HOST, port, SystemClock().now_ms() + SOON_MS, bytes(32))
        with pytest.raises(ConfigError, match="is not the authority that issued it"):
            await join_by_token(tmp_path / "node", token.text(), "node-2", SystemClock())
    assert not (tmp_path / "node").exists()


async def test_a_name_that_no_node_may_have_is_refused(authority: Path, tmp_path: Path) -> None:
    async with admitting(authority, SystemClock()) as token:
        with pytest.raises(ArgumentError, match="is not a valid node name"):
            await join_by_token(tmp_path / "node", token.text(), "Not a name", SystemClock())


def test_what_is_not_a_request_gets_a_reason(authority: Path) -> None:
    clock = SystemClock()
    admission = Admission(authority, clock.now_ms() + SOON_MS, clock)
    for message in (b"", b"{}", b"[1]", b"\xff"):
        answer = msgspec.json.decode(admission.answer(message), type=JoinAnswer)
        assert answer.error and not answer.certificate


async def test_an_authority_that_does_not_answer(tmp_path: Path) -> None:
    token = JoinToken(HOST, 1, SystemClock().now_ms() + SOON_MS, bytes(32))
    with pytest.raises(ConfigError, match="still running there"):
        await join_by_token(tmp_path / "node", token.text(), "node-2", SystemClock())


@pytest.mark.parametrize(
    "text", ["", "word", TOKEN_PREFIX, TOKEN_PREFIX + "!", TOKEN_PREFIX + "e30=", "é"]
)
def test_what_is_not_a_token(text: str) -> None:
    with pytest.raises(ArgumentError, match="copy the whole line"):
        read_token(text)


def test_a_token_is_one_word_and_read_back() -> None:
    token = JoinToken("10.0.0.1", 7000, 5, bytes(range(32)))
    assert " " not in token.text()
    assert read_token(token.text()) == token
    assert base64.urlsafe_b64decode(token.text().removeprefix(TOKEN_PREFIX))


def test_only_the_authority_admits(tmp_path: Path) -> None:
    with pytest.raises(BusError, match="does not hold the authority"):
        Admission(tmp_path, 0, SystemClock())
