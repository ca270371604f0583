"""New nodes get their certificates over the network, for as long as a token is valid.

Owns the token, and both ends of its one exchange: a node makes its own key and sends a request to
be signed, and the holder of the authority answers with the certificate. The secret of the token is
never sent: it authenticates both messages, so the connection needs no secrecy, and an attacker on
it can neither join nor pose as the authority. A token expires by the clock of the authority, or
with the process that issued it. Neither key leaves the machine it was made on. Called by `partibus
cluster`.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from pathlib import Path
from typing import Final

import msgspec

from partibus.domain.clock import Clock
from partibus.domain.errors import ArgumentError, BusError, ConfigError
from partibus.listener.certificates import NodeKey
from partibus.server.nodes.certificates import (
    check_name,
    cluster_authority,
    node_until_ms,
    write_signed,
)

TOKEN_PREFIX: Final = "partibus-join-"  # noqa: S105 - how every token begins
SECRET_BYTES: Final = 32
MESSAGE_BYTES_MAX: Final = 16 * 1024
"""A request or a certificate with its chain takes a few kilobytes."""
EXCHANGE_S: Final = 10.0
EXCHANGES_MAX: Final = 16
"""Concurrent requests; further ones are closed at once."""

log = logging.getLogger(__name__)


class JoinToken(msgspec.Struct, frozen=True, array_like=True):
    """Where to ask, until when, and the secret that authenticates both ends."""

    host: str
    port: int
    until_ms: int
    secret: bytes

    def text(self) -> str:
        """The token as one word, to be handed over."""
        return TOKEN_PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


def read_token(text: str) -> JoinToken:
    """Raises ArgumentError when it is not a join token."""
    try:
        if not text.startswith(TOKEN_PREFIX):
            raise ValueError
        encoded = base64.urlsafe_b64decode(text.removeprefix(TOKEN_PREFIX))
        return msgspec.json.decode(encoded, type=JoinToken)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise ArgumentError(
            "This is not a token of `partibus cluster admit`; copy the whole line that it printed."
        ) from error


class JoinRequest(msgspec.Struct, frozen=True):
    """The request of a node."""

    name: str
    csr: bytes
    proof: bytes


class JoinAnswer(msgspec.Struct, frozen=True):
    """The answer: a certificate with the authorities to trust, or the reason for a refusal."""

    certificate: bytes = b""
    authorities: bytes = b""
    proof: bytes = b""
    error: str = ""


def _proof(secret: bytes, *parts: bytes) -> bytes:
    """The authentication code of a message, whose parts cannot be confused."""
    message = b"".join(len(part).to_bytes(4) + part for part in parts)
    return hmac.digest(secret, message, hashlib.sha256)


class Admission:
    """The authority, for as long as a token is valid."""

    def __init__(self, directory: Path, until_ms: int, clock: Clock) -> None:
        self._authority, self._trusted = cluster_authority(directory)
        self._clock = clock
        self.until_ms = until_ms
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self._exchanges = 0

    def answer(self, message: bytes) -> bytes:
        """Sign a request that is authentic and in time; otherwise return a reason, and no
        certificate."""
        try:
            request = msgspec.json.decode(message, type=JoinRequest)
            return msgspec.json.encode(self._signed(request))
        except msgspec.MsgspecError:
            return msgspec.json.encode(JoinAnswer(error="This is not a request to join."))
        except BusError as error:
            log.warning("a request to join was refused: %s", error.text)
            return msgspec.json.encode(JoinAnswer(error=error.text))

    def _signed(self, request: JoinRequest) -> JoinAnswer:
        proof = _proof(self.secret, b"request", request.name.encode(), request.csr)
        if not hmac.compare_digest(proof, request.proof):
            raise ArgumentError("The token was printed by another `partibus cluster admit`.")
        now_ms = self._clock.now_ms()
        if now_ms >= self.until_ms:
            raise ArgumentError("The token has expired. Run `partibus cluster admit` again.")
        check_name(request.name)
        until_ms = node_until_ms(self._authority, now_ms)
        certificate = self._authority.certify(request.csr, request.name, now_ms, until_ms)
        log.info("a certificate was made for the node %s", request.name)
        proof = _proof(self.secret, b"answer", certificate, self._trusted)
        return JoinAnswer(certificate, self._trusted, proof)

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Answer one request for each connection; the caller closes it."""
        return await asyncio.start_server(self._talk, host, port, limit=MESSAGE_BYTES_MAX)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._exchanges += 1
        try:
            async with asyncio.timeout(EXCHANGE_S):
                if self._exchanges <= EXCHANGES_MAX:
                    message = await reader.readuntil(b"\n")
                    writer.write(self.answer(message) + b"\n")
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no answer for a client that leaves or sends too much
        finally:
            self._exchanges -= 1
            writer.close()


async def join_by_token(directory: Path, text: str, name: str, clock: Clock) -> None:
    """Make a key, have it signed, and write a node's files into the directory."""
    check_name(name)
    token = read_token(text)
    if clock.now_ms() >= token.until_ms:
        raise ArgumentError("The token has expired. Run `partibus cluster admit` again.")
    key = NodeKey(name)
    proof = _proof(token.secret, b"request", name.encode(), key.request)
    answer = await _ask(token, JoinRequest(name, key.request, proof))
    if answer.error:
        raise ArgumentError(f"The authority refused the request: {answer.error}")
    proof = _proof(token.secret, b"answer", answer.certificate, answer.authorities)
    if not hmac.compare_digest(proof, answer.proof):
        raise ConfigError(
            f"The server at {token.host}:{token.port} does not know the token: it is not the "
            "authority that issued it."
        )
    write_signed(directory, answer.certificate, key.pem, answer.authorities, clock.now_ms())


async def _ask(token: JoinToken, request: JoinRequest) -> JoinAnswer:
    try:
        async with asyncio.timeout(EXCHANGE_S):
            reader, writer = await asyncio.open_connection(
                token.host, token.port, limit=MESSAGE_BYTES_MAX
            )
            try:
                writer.write(msgspec.json.encode(request) + b"\n")
                return msgspec.json.decode(await reader.readuntil(b"\n"), type=JoinAnswer)
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"The authority at {token.host}:{token.port} does not answer: is `partibus cluster "
            f"admit` still running there? ({error or type(error).__name__})"
        ) from error
