"""Why a client cannot connect: a series of checks, each with advice.

Owns the checks of `partibus doctor` in the order in which a connection is made: the string, the
name, the port, TLS, AMQP, the token, the entity and its rights, and in addition HTTP, the
management API and the clocks. A check that depends on a failed one is left out. It must never send
to an entity or receive from one.
"""

import asyncio
import email.utils
import http.client
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from partibus import __version__
from partibus.cli.failures import CommandFailed, plain_words, unreachable
from partibus.cli.managing import atom_at
from partibus.cli.place import Place
from partibus.client.bus import Bus, tls_context
from partibus.client.errors import AtomError, RemoteError, requires_sessions
from partibus.domain import conditions
from partibus.server.failure import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_UNAUTHORIZED, EXIT_UNREACHABLE

if TYPE_CHECKING:
    from partibus.amqp.performatives import OpenFrame

Status = Literal["ok", "warn", "fail"]
SECONDS_MAX: Final = 10.0
SKEW_SECONDS_MAX: Final = 5.0
_RECEIVED_FROM: Final = ("/subscriptions/", "/$deadletterqueue")
"""In the paths of entities that can only be received from."""


@dataclass(slots=True, frozen=True)
class Finding:
    """The result of one check; `advice` says what to do when it failed."""

    check: str
    status: Status
    text: str
    advice: str = ""
    exit_code: int = 0


async def diagnose(place: Place, entity: str | None) -> AsyncIterator[Finding]:
    """All applicable checks, in order; ends early when nothing more can be found out."""
    entity = entity or place.connection.entity_path
    yield _string(place)
    yield (name := await _name(place))
    if name.status == "fail":
        return
    yield (port := await _port(place))
    if port.status == "fail":
        return
    if place.connection.uses_tls:
        yield (tls := await _tls(place))
        if tls.status == "fail":
            return
    async for finding in _amqp(place, entity):
        yield finding
    for check in (_http, _management, _clock):
        yield await asyncio.to_thread(check, place)


def _string(place: Place) -> Finding:
    connection = place.connection
    who = connection.policy or "a ready-made token"
    mode = "TLS" if connection.uses_tls else "no TLS (UseDevelopmentEmulator=true)"
    text = f"{place.amqp}, {who}, {mode}; from {place.origin}"
    return Finding("connection string", "ok", text)


async def _name(place: Place) -> Finding:
    host = place.connection.host
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        advice = "Check the spelling of Endpoint, and the DNS or /etc/hosts of this machine."
        text = f"{host} has no address: {error.strerror or error}"
        return Finding("name", "fail", text, advice, EXIT_UNREACHABLE)
    addresses = sorted({str(entry[4][0]) for entry in found})
    return Finding("name", "ok", f"{host} is {', '.join(addresses)}")


async def _port(place: Place) -> Finding:
    host, port = place.connection.host, place.connection.amqp_port
    start = time.monotonic()
    try:
        async with asyncio.timeout(SECONDS_MAX):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        advice = "A firewall may block it, or the host is down. Is the port open to you?"
        text = f"port {port} of {host} does not answer"
        return Finding("port", "fail", text, advice, EXIT_UNREACHABLE)
    except OSError:
        advice = (
            "Nothing listens there: is the server running (partibus serve), is it this port, and"
            " does it listen for other machines (--host 0.0.0.0)?"
        )
        text = f"port {port} of {host} refuses the connection"
        return Finding("port", "fail", text, advice, EXIT_UNREACHABLE)
    elapsed_ms = (time.monotonic() - start) * 1000
    writer.close()
    return Finding("port", "ok", f"port {port} answers in {elapsed_ms:.1f} ms")


async def _tls(place: Place) -> Finding:
    host, port = place.connection.host, place.connection.amqp_port
    try:
        async with asyncio.timeout(SECONDS_MAX):
            context = tls_context(place.ca_file)
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLCertVerificationError as error:
        return Finding("TLS", "fail", f"certificate: {error.verify_message}", _trust(error), 5)
    except (OSError, TimeoutError) as error:
        advice = (
            "The port does not speak TLS. Against a development server add"
            " UseDevelopmentEmulator=true to the connection string; otherwise check the port."
        )
        return Finding("TLS", "fail", str(error) or "no answer", advice, EXIT_UNREACHABLE)
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return Finding("TLS", "ok", f"{version}, the certificate is trusted")


def _trust(error: ssl.SSLCertVerificationError) -> str:
    if "mismatch" in error.verify_message.lower():
        return (
            "The certificate is for another name. Use the name it was made for as Endpoint, or"
            " give the server a certificate for this one."
        )
    if "expired" in error.verify_message.lower():
        return "Renew the certificate, or correct this machine's clock."
    return (
        "Trust the server's authority: --ca-file here (the READY line names it as ca=), and in"
        " your program SSL_CERT_FILE or REQUESTS_CA_BUNDLE (Python), NODE_EXTRA_CA_CERTS (Node)."
    )


async def _amqp(place: Place, entity: str | None) -> AsyncIterator[Finding]:
    opened = False
    try:
        async with Bus.open(place.connection, ca_file=place.ca_file) as bus:
            opened = True
            yield _greeting(bus.client.engine.remote_open)
            yield (token := await _token(bus, entity))
            if token.status == "ok" and entity is not None:
                async for finding in _entity(bus, entity):
                    yield finding
    except (OSError, RemoteError) as error:
        failed = unreachable(place.amqp, error)
        advice = "Does something else listen on this port? Partibus and Azure speak AMQP 1.0."
        text = failed.text if not opened else f"the connection ended: {error}"
        yield Finding("AMQP", "fail", text, advice, EXIT_UNREACHABLE)


def _greeting(opened: "OpenFrame | None") -> Finding:
    assert opened is not None
    product = opened.properties.get("product")
    if product != "partibus":
        return Finding("AMQP", "ok", f"AMQP 1.0, container {opened.container_id}")
    version = str(opened.properties.get("version"))
    text = f"AMQP 1.0, Partibus {version}"
    if version == __version__:
        return Finding("AMQP", "ok", text)
    advice = f"This command is Partibus {__version__}; use the server's version if it misbehaves."
    return Finding("AMQP", "warn", text, advice)


async def _token(bus: Bus, entity: str | None) -> Finding:
    try:
        await bus.authorize(entity or "")
    except RemoteError as error:
        advice = (
            "Check SharedAccessKeyName and SharedAccessKey: copy the connection string again,"
            " whole, and quote it in the shell since it holds ';'."
        )
        if not entity:
            advice += " A policy of one entity is valid only there: partibus doctor ENTITY."
        return Finding("token", "fail", plain_words(error), advice, EXIT_UNAUTHORIZED)
    where = f"for {entity}" if entity else "for the namespace"
    return Finding("token", "ok", f"the token is accepted {where}")


async def _entity(bus: Bus, entity: str) -> AsyncIterator[Finding]:
    is_for_sending = not any(part in entity.lower() for part in _RECEIVED_FROM)
    if is_for_sending:
        finding = await _right(bus, entity, "send")
        yield finding
        if finding.exit_code == EXIT_NOT_FOUND:
            return
    yield await _right(bus, entity, "receive")


async def _right(bus: Bus, entity: str, right: Literal["send", "receive"]) -> Finding:
    try:
        link = await (bus.sender(entity) if right == "send" else bus.receiver(entity))
        await link.close()
    except RemoteError as error:
        return _refusal(error, entity, right)
    return Finding(
        right, "ok", f"{entity} can be {'sent to' if right == 'send' else 'received from'}"
    )


def _refusal(error: RemoteError, entity: str, right: str) -> Finding:
    text = plain_words(error)
    if error.condition == conditions.NOT_FOUND:
        advice = "List the queues: partibus queue list. Create it: partibus queue create NAME"
        return Finding(right, "fail", f"{entity} does not exist", advice, EXIT_NOT_FOUND)
    if error.condition == conditions.UNAUTHORIZED_ACCESS:
        word = "Send" if right == "send" else "Listen"
        advice = f"Use a policy with the {word} right on this entity or the namespace."
        return Finding(right, "warn", f"this policy may not {right}", advice, EXIT_UNAUTHORIZED)
    if requires_sessions(text):
        text = f"{entity} can be received from, with sessions"
        return Finding(right, "ok", text)
    if right == "receive" and "topic" in text.lower():
        return Finding(right, "ok", f"{entity} is a topic: receive from its subscriptions")
    return Finding(right, "fail", text, "See the server's log.", EXIT_FAILED)


def _http(place: Place) -> Finding:
    if place.connection.is_cloud:
        return Finding("HTTP", "ok", "the cloud has no health page")
    connection = place.open_http(SECONDS_MAX)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        advice = "Give --url if HTTP is answered elsewhere; messages do not need it."
        return Finding("HTTP", "warn", unreachable(place.url, error).text, advice)
    finally:
        connection.close()
    if answer.status == http.client.OK:
        return Finding("HTTP", "ok", f"{place.url}/health reports healthy")
    advice = "The server is up but not healthy: see partibus store list and its log."
    return Finding("HTTP", "fail", f"health is {answer.status}: {body[:200]}", advice, EXIT_FAILED)


def _management(place: Place) -> Finding:
    try:
        with atom_at(place) as atom:
            fields = atom.namespace()
    except AtomError as error:
        if error.status in (401, 403):
            advice = "Entities can only be created with the Manage right on the namespace."
            return Finding("management", "warn", "this policy may not manage", advice)
        return Finding("management", "warn", f"it answers {error.status}: {error.text}")
    except CommandFailed as error:
        return Finding("management", "warn", error.text)
    return Finding(
        "management", "ok", f"namespace {fields.get('Name', '')}, {fields.get('MessagingSKU', '')}"
    )


def _clock(place: Place) -> Finding:
    connection = place.open_http(SECONDS_MAX)
    try:
        connection.request("GET", "/livez")
        before = time.time()
        date = connection.getresponse().getheader("date")
        now = (before + time.time()) / 2
    except (OSError, http.client.HTTPException):
        date = None
    finally:
        connection.close()
    if date is None:
        return Finding("clock", "warn", "the server does not report its time over HTTP")
    ahead_s = now - email.utils.parsedate_to_datetime(date).timestamp() - 0.5
    if abs(ahead_s) <= SKEW_SECONDS_MAX:
        return Finding("clock", "ok", "the clocks of this machine and the server agree")
    text = (
        f"this clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the server's"
    )
    advice = "Synchronize both (NTP): tokens expire and locks end by these clocks."
    return Finding("clock", "warn", text, advice)
