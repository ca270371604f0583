"""Hostile requests on every surface that speaks HTTP: refused, and nothing else happens.

Each has a good token, so that it gets as far as it can. The answer is one of the caller's errors
(4xx), never a failure of the server (5xx), and always comes. Paths and bodies of the management
API have a table of their own in tests/conformance/admin.
"""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from conformance.access.stage import Stage, snapshot
from support.json_admin import JsonAdmin
from support.sas import sas_token
from support.server import ServerProcess

TIMEOUT_SECONDS = 60
MEGABYTE = 1024 * 1024
CALLERS_ERROR = range(400, 500)

ODD_PARTS = (
    *("..", ".", "../..", "%2e%2e", "%2e%2e%2f%2e%2e", "..%5c..", "%00", "a%00b", "%ff%fe"),
    *("%", "%zz", "%25%32%65", "a b", "a%0d%0ab", "<a>", "'\"", "a;b", "a:b", "@", "*", "$", "$x"),
    *("~", "%F0%9F%98%80", "a" * 261, "a" * 20_000, "/".join("a" * 500), "-", "a/", "/a"),
)
METHODS = ("TRACE", "OPTIONS", "HEAD", "PATCH", "PUT", "DELETE", "POST", "GET")


def ask(
    server: ServerProcess,
    method: str,
    path: str,
    body: bytes | Iterator[bytes] = b"",
    **headers: str,
) -> tuple[int, bytes]:
    ready = server.ready
    connection = http.client.HTTPConnection(
        ready.http_host, ready.http_port, timeout=TIMEOUT_SECONDS
    )
    sent = {"Authorization": sas_token("http://localhost/"), **headers}
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        is_whole = isinstance(body, bytes)
        if is_whole:
            connection.putheader("Content-Length", str(len(body)))
        else:
            connection.putheader("Transfer-Encoding", "chunked")
        # A server that has heard enough closes; what it said is still there to be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.endheaders(body if is_whole and body else None)
            if not is_whole:
                for part in body:
                    connection.send(b"%x\r\n%s\r\n" % (len(part), part))
                connection.send(b"0\r\n\r\n")
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture
def unharmed(server: ServerProcess, admin: JsonAdmin, stage: Stage) -> Iterator[Stage]:
    """Whatever happens, the namespace is afterwards what it was."""
    before = snapshot(admin, stage)
    yield stage
    assert snapshot(admin, stage) == before


@pytest.mark.parametrize("part", ODD_PARTS, ids=range(len(ODD_PARTS)))
def test_odd_paths(server: ServerProcess, unharmed: Stage, part: str) -> None:
    """Nothing is found below an odd name, and none becomes an entity's or a policy's."""
    part = part.replace(" ", "%20") if " " in part else part
    queue = unharmed.queue
    asked = [
        ("POST", f"/{part}/messages", b"x"),
        ("DELETE", f"/{part}/messages/head?timeout=0", b""),
        ("DELETE", f"/{queue}/messages/{part}/{part}", b""),
        ("POST", f"/{queue}/{part}/messages", b"x"),
        ("DELETE", f"/$partibus/entities/{part}", b""),
        ("PATCH", f"/$partibus/entities/{part}", b'{"properties": {}}'),
        ("POST", f"/$partibus/entities/{part}/purge", b""),
        ("DELETE", f"/$partibus/policies/{part}", b""),
        ("PUT", f"/$partibus/policies/{part}", b'{"rights": []}'),
        ("GET", f"/$partibus/policies?entity={part or 'x'}x", b""),
        ("DELETE", f"/{part}?api-version=2021-05", b""),
        ("GET", f"/{queue}/Subscriptions/{part}?api-version=2021-05", b""),
    ]
    answers = {f"{m} {p[:60]}": ask(server, m, p, b)[0] for m, p, b in asked}
    strange = {what: status for what, status in answers.items() if status not in CALLERS_ERROR}
    assert not strange


@pytest.mark.parametrize("method", METHODS)
def test_odd_methods(server: ServerProcess, unharmed: Stage, method: str) -> None:
    for path in ("/", "/health", "/$partibus/stores", "/$partibus/nothing", "/x/y/z"):
        status, _ = ask(server, method, path)
        assert status < 500, (method, path)


@pytest.mark.parametrize("method", ["PROPFIND", "X", "get", "GET\tx"])
def test_what_is_no_http_is_hung_up_on(server: ServerProcess, unharmed: Stage, method: str) -> None:
    address = (server.ready.http_host, server.ready.http_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            answer = stranger.recv(4096)
        assert not answer.startswith(b"HTTP/1.1 2")


NAMES = ("", " ", "..", "a/../b", "/a", "a/", "a//b", "a b", "$a", "a?", "a#", "a*", "a@b", "a\x00")
MORE_NAMES = (
    "a\n",
    "ä/…",
    "\ud800",
    "a" * 261,
    "queue/Subscriptions/x",
    "a\\b",
    "a%2fb",
    "-a",
    ".",
)


@pytest.mark.parametrize("name", NAMES + MORE_NAMES, ids=ascii)
def test_odd_names_in_json(server: ServerProcess, unharmed: Stage, name: str) -> None:
    body = json.dumps({"name": name, "kind": "queue"}).encode()
    status, text = ask(server, "POST", "/$partibus/entities", body)
    assert status in CALLERS_ERROR, text
    subscription = json.dumps(
        {"name": f"{unharmed.topic}/Subscriptions/{name}", "kind": "subscription"}
    )
    status, text = ask(server, "POST", "/$partibus/entities", subscription.encode())
    assert status in CALLERS_ERROR, text


JSON_BODIES = (
    *(b"", b"null", b"[]", b'"x"', b"5", b"{", b"{}", b"\xff\xfe{}", b"\x00", b"[" * 60_000),
    *(b'{"name": ' * 6_000, b'{"name": 5}', b'{"name": null}', b'{"name": ["x"]}', b'{"x": 1}'),
    *(b'{"name": "n", "kind": "table"}', b'{"name": "n", "kind": 5}', b'{"name": "n", "x": 1}'),
    *(b'{"name": "n", "properties": []}', b'{"name": "n", "properties": {"x": 1}}'),
    *(
        b'{"name": "n", "properties": {"max_delivery_count": %s}}' % n
        for n in (b"-1", b"0", b"1e9")
    ),
    *(b'{"name": "n", "properties": {"max_delivery_count": %s}}' % n for n in (b"NaN", b"true")),
    b'{"name": "n", "properties": {"max_delivery_count": 1' + b"0" * 5_000 + b"}}",
    b'{"name": "n", "properties": {"max_size_in_megabytes": -1}}',
    b'{"name": "n", "properties": {"lock_duration": "-PT5S"}}',
    b'{"name": "n", "properties": {"lock_duration": "P99999999999999999999D"}}',
    b'{"name": "n", "properties": {"user_metadata": "' + b"x" * 1025 + b'"}}',
    b'{"name": "n", "properties": {"forward_to": "nobody"}}',
    b'{"name": "n", "properties": {"partition_count": -1, "enable_partitioning": true}}',
    b'{"name": "n", "properties": {"partition_count": 65536, "enable_partitioning": true}}',
    b'<?xml version="1.0"?><a/>',
)


@pytest.mark.parametrize("body", JSON_BODIES, ids=range(len(JSON_BODIES)))
def test_odd_bodies_in_json(server: ServerProcess, unharmed: Stage, body: bytes) -> None:
    status, text = ask(server, "POST", "/$partibus/entities", body)
    assert status in CALLERS_ERROR, text
    assert json.loads(text)["error"]["text"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"limit": -1}',
        b'{"limit": 0}',
        b'{"limit": 1.5}',
        b'{"limit": true}',
        b'{"limit": "5"}',
        b'{"limit": 1e400}',
        b'{"subqueue": "all"}',
        b'{"subqueue": 5}',
        b'{"before": "yesterday"}',
        b'{"before": -1}',
        b'{"before": "9999999-01-01"}',
        b'{"before": [1]}',
        b'{"x": 1}',
    ],
)
def test_odd_purges(server: ServerProcess, unharmed: Stage, body: bytes) -> None:
    path = f"/$partibus/entities/{unharmed.queue}/purge"
    status, text = ask(server, "POST", path, body)
    assert status in CALLERS_ERROR, text


@pytest.mark.parametrize(
    "body",
    [
        b'{"rights": []}',
        b'{"rights": "Send"}',
        b'{"rights": ["Fly"]}',
        b'{"rights": [["Send"]]}',
        b'{"rights": ["Manage"]}',
        b'{"rights": ["Send"], "primary_key": ""}',
        b'{"rights": ["Send"], "primary_key": 5}',
        b'{"rights": ["Send"], "primary_key": "\\ud800"}',
        b'{"rights": ["Send"], "primary_key": "' + b"x" * 257 + b'"}',
        b'{"rights": ["Send"], "x": 1}',
    ],
)
def test_odd_policies(server: ServerProcess, unharmed: Stage, body: bytes) -> None:
    for scope in ("", f"?entity={unharmed.queue}", "?entity=nothing", "?entity=..%2f.."):
        status, text = ask(server, "PUT", f"/$partibus/policies/odd{scope}", body)
        assert status in CALLERS_ERROR, text


FAULTS = (
    *(b"{}", b'{"kind": "meteor"}', b'{"kind": 5}', b'{"kind": "store"}'),
    *(
        b'{"kind": "store", "store": -1, "mode": "down"}',
        b'{"kind": "store", "store": 99, "mode": "x"}',
    ),
    b'{"kind": "throttle", "entity": "..", "rate_per_s": 1}',
    b'{"kind": "throttle", "entity": "other", "rate_per_s": -1}',
    b'{"kind": "throttle", "entity": "other", "rate_per_s": 1e999}',
    b'{"kind": "throttle", "entity": "other", "rate_per_s": NaN}',
    b'{"kind": "latency", "rtt_ms": -5}',
    b'{"kind": "latency", "rtt_ms": 1e99}',
)


@pytest.mark.parametrize("body", FAULTS)
def test_odd_faults(server: ServerProcess, unharmed: Stage, body: bytes) -> None:
    status, text = ask(server, "POST", "/$partibus/faults", body)
    assert status in CALLERS_ERROR, text
    _, listed = ask(server, "GET", "/$partibus/faults")
    assert json.loads(listed)["faults"] == []


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b"]><entry>&j;</entry>"
)


def test_bombs_and_documents_of_the_wrong_kind(server: ServerProcess, unharmed: Stage) -> None:
    """A bomb is refused by whoever reads XML; for a queue it is a message like any other."""
    asked = {
        f"/{unharmed.queue}-new?api-version=2021-05": 400,
        "/$partibus/entities": 400,
    }
    for path, status in asked.items():
        method = "PUT" if "api-version" in path else "POST"
        assert ask(server, method, path, BOMB)[0] == status
    zipped = {"Content-Encoding": "gzip"}
    assert ask(server, "POST", "/$partibus/entities", b"\x1f\x8b" + bytes(50), **zipped)[0] == 400


def megabytes(count: int) -> Iterator[bytes]:
    part = b" " * MEGABYTE
    for _ in range(count):
        yield part


@pytest.mark.parametrize("surface", ["data plane", "batch", "JSON", "management"])
@pytest.mark.parametrize("form", ["announced", "in parts"])
def test_bodies_of_a_hundred_megabytes(
    server: ServerProcess, unharmed: Stage, surface: str, form: str
) -> None:
    """Refused as soon as it is clear that they are too long, and not kept in memory."""
    queue = unharmed.queue
    batch = {"Content-Type": "application/vnd.microsoft.servicebus.json"}
    method, path, headers = {
        "data plane": ("POST", f"/{queue}/messages", {}),
        "batch": ("POST", f"/{queue}/messages", batch),
        "JSON": ("POST", "/$partibus/entities", {}),
        "management": ("PUT", f"/{queue}-new?api-version=2021-05", {}),
    }[surface]
    before_kb = resident_kilobytes(server)
    if form == "in parts":
        status, _ = ask(server, method, path, megabytes(100), **headers)
    else:
        status = announced(server, method, path, 100 * MEGABYTE, headers)
    assert status in (400, 403, 413)
    assert resident_kilobytes(server) - before_kb < 50_000


def announced(
    server: ServerProcess, method: str, path: str, length: int, headers: dict[str, str]
) -> int:
    """The answer to a body that is announced and never sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Authorization: {sas_token('http://localhost/')}")
    address = (server.ready.http_host, server.ready.http_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(stranger.recv(4096).split()[1])


def resident_kilobytes(server: ServerProcess) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.parametrize(
    "token",
    [
        "SharedAccessSignature",
        "SharedAccessSignature ",
        "SharedAccessSignature sr=&sig=&se=&skn=",
        "SharedAccessSignature sr=x&sr=y&sig=z&se=1&skn=n",
        "SharedAccessSignature sr=x&sig=z&se=-1&skn=n",
        "SharedAccessSignature sr=x&sig=z&se=99999999999999999999&skn=n",
        "SharedAccessSignature sr=x&sig=%ff%fe&se=9999999999&skn=RootManageSharedAccessKey",
        "SharedAccessSignature sr=" + quote("http://x/../..") + "&sig=z&se=9999999999&skn=n",
        "SharedAccessSignature " + "a=b&" * 3_000,
        "Bearer " + "a." * 3_000,
        "Basic dXNlcjpwYXNz",
        "\xff",
        "x" * 20_000,
    ],
    ids=range(13),
)
def test_odd_tokens(server: ServerProcess, unharmed: Stage, token: str) -> None:
    queue = unharmed.queue
    for method, path in (
        ("POST", f"/{queue}/messages"),
        ("GET", "/$partibus/entities"),
        ("GET", f"/{queue}?api-version=2021-05"),
    ):
        status, _ = ask(server, method, path, Authorization=token)
        assert status in (400, 401, 431), (path, status)
