"""The administration's paths, forms and errors, asked through the application itself."""

import json
from typing import Any

import pytest

from partibus.domain.errors import (
    EntityNotFound,
    OperationConflict,
    StoreUnavailable,
    Unauthorized,
)
from partibus.ops.health import operations_application

GOOD = "SharedAccessSignature good"


class FakeNode:
    """Answers with what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.authorized: list[str] = []
        self.console_mode = "on"

    @property
    def faults(self) -> "FakeFaults":
        return FakeFaults(self)

    @property
    def pipelines(self) -> "FakePipelines":
        return FakePipelines(self)

    def authorize(self, token: str | None, path: str) -> None:
        self.authorized.append(path)
        if token != GOOD:
            raise Unauthorized("No token.")

    async def entities(self) -> dict[str, Any]:
        return {"entities": []}

    async def entity(self, name: str) -> dict[str, Any]:
        if name == "nope":
            raise EntityNotFound.named(name)
        return {"name": name}

    async def stores(self) -> dict[str, Any]:
        return {"stores": []}

    async def purge(
        self, name: str, subqueue: str, before_ms: int | None, limit: int | None
    ) -> dict[str, Any]:
        self.asked.append((name, subqueue, before_ms, limit))
        if name == "down":
            raise StoreUnavailable
        return {"purged": 3}


class FakePipelines:
    def __init__(self, node: FakeNode) -> None:
        self._node = node

    async def claims(self, name: str) -> dict[str, Any]:
        return {"name": name, "claims": []}

    async def release(self, name: str, owner: str, forget: bool) -> dict[str, Any]:
        self._node.asked.append((name, owner, forget))
        return {"released": 3}

    async def cursors(self, name: str) -> dict[str, Any]:
        return {"name": name, "cursors": []}

    async def drop(self, name: str, cursor: str) -> dict[str, Any]:
        self._node.asked.append((name, cursor))
        return {"dropped": True}


class FakeFaults:
    def __init__(self, node: FakeNode) -> None:
        self._node = node

    async def set(self, payload: object) -> dict[str, Any]:
        self._node.asked.append(("set", payload))
        return {"count": 1}

    async def list(self) -> dict[str, Any]:
        return {"faults": []}

    async def clear(self, key: str | None = None) -> dict[str, Any]:
        return {"cleared": []}


class Asked:
    def __init__(self, status: int, headers: dict[str, str], text: str) -> None:
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def json(self) -> Any:
        return json.loads(self.text)


async def ask(
    node: FakeNode, method: str, path: str, body: bytes = b"", token: str | None = GOOD
) -> Asked:
    """One request to the application."""
    sent: list[dict[str, Any]] = []
    headers = [(b"host", b"localhost")]
    if token is not None:
        headers.append((b"authorization", token.encode()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/$partibus{path.partition('?')[0]}",
        "raw_path": b"",
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": headers,
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    application = operations_application(lambda: (True, "good"), node)
    await application(scope, receive, send)
    start, *rest = sent
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    return Asked(start["status"], told, b"".join(part.get("body", b"") for part in rest).decode())


async def test_what_is_known_is_told_fresh() -> None:
    node = FakeNode()
    for path in ("/entities", "/stores", "/faults"):
        answer = await ask(node, "GET", path)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.json == {path[1:]: []}
    assert node.authorized == ["/$partibus/entities", "/$partibus/stores", "/$partibus/faults"]


async def test_names_may_have_slashes() -> None:
    answer = await ask(FakeNode(), "GET", "/entities/a/b/Subscriptions/c")
    assert answer.json == {"name": "a/b/Subscriptions/c"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/entities"),
        ("GET", "/entities/q"),
        ("POST", "/entities/q/purge"),
        ("GET", "/entities/q/claims"),
        ("POST", "/entities/q/claims/release"),
        ("GET", "/entities/q/cursors"),
        ("POST", "/entities/q/cursors/drop"),
        ("GET", "/stores"),
        ("GET", "/faults"),
        ("POST", "/faults"),
        ("DELETE", "/faults"),
    ],
)
async def test_nothing_is_told_or_done_without_a_token(method: str, path: str) -> None:
    node = FakeNode()
    answer = await ask(node, method, path, token=None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "SharedAccessSignature"
    error = answer.json["error"]
    assert (error["condition"], error["text"]) == ("amqp:unauthorized-access", "No token.")
    assert len(error["tracking_id"]) == 36
    assert error["retryable"] is False
    assert node.asked == []


async def test_errors_say_whether_to_try_again() -> None:
    missing = await ask(FakeNode(), "GET", "/entities/nope")
    assert (missing.status, missing.json["error"]["retryable"]) == (404, False)
    down = await ask(FakeNode(), "POST", "/entities/down/purge")
    assert (down.status, down.json["error"]["retryable"]) == (503, True)
    assert down.json["error"]["condition"] == "com.microsoft:server-busy"


async def test_a_purge_reads_its_form() -> None:
    node = FakeNode()
    await ask(node, "POST", "/entities/q/purge")
    body = b'{"subqueue": "dead-letter", "before": "1970-01-01T00:00:01Z", "limit": 5}'
    await ask(node, "POST", "/entities/a/b/purge", body)
    await ask(node, "POST", "/entities/q/purge", b'{"before": "1970-01-01T01:00:02+01:00"}')
    await ask(node, "POST", "/entities/q/purge", b'{"before": "1970-01-01 00:00:03"}')
    assert node.asked == [
        ("q", "active", None, None),
        ("a/b", "dead-letter", 1000, 5),
        ("q", "active", 2000, None),
        ("q", "active", 3000, None),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b'{"subqueues": 1}', "'subqueues' is unknown"),
        (b'{"before": "yesterday"}', "'yesterday' is not a valid time"),
        (b'{"limit": "all"}', "'limit' must be a number"),
        (b"[" * 60_000, "nested too deeply"),
        (b'{"subqueue": "\\ud800"}', "not JSON"),
    ],
)
async def test_a_wrong_form_is_explained(body: bytes, words: str) -> None:
    node = FakeNode()
    answer = await ask(node, "POST", "/entities/q/purge", body)
    assert answer.status == 400
    assert answer.json["error"]["condition"] == "com.microsoft:argument-error"
    assert words in answer.json["error"]["text"]
    assert node.asked == []


async def test_a_request_that_is_too_long_is_not_read() -> None:
    node = FakeNode()
    answer = await ask(node, "POST", "/entities/q/purge", b" " * 70_000)
    assert (answer.status, node.asked) == (413, [])
    assert "longer than" in answer.json["error"]["text"]


async def test_faults_are_set_and_cleared() -> None:
    node = FakeNode()
    assert (await ask(node, "POST", "/faults", b'{"kind": "connections"}')).json == {"count": 1}
    assert (await ask(node, "DELETE", "/faults")).json == {"cleared": []}
    assert node.asked == [("set", {"kind": "connections"})]


async def test_a_path_that_is_not_there_is_no_secret() -> None:
    assert (await ask(FakeNode(), "GET", "/nothing")).status == 404
    assert (await ask(FakeNode(), "DELETE", "/stores")).status == 405


class FakeNamespace:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def answer(*arguments: object) -> dict[str, Any]:
            self.asked.append((name, *arguments))
            if arguments[0] == "busy":
                raise OperationConflict
            return {"did": name}

        return answer


class DeskNode(FakeNode):
    """A node whose namespace can be written."""

    def __init__(self) -> None:
        super().__init__()
        self.namespace = FakeNamespace()


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("POST", "/entities", ("create", {"a": 1})),
        ("PATCH", "/entities/a/b", ("update", "a/b", {"a": 1})),
        ("DELETE", "/entities/a/b", ("delete", "a/b")),
        ("GET", "/policies", ("policies", "")),
        ("GET", "/policies?entity=a%2Fb", ("policies", "a/b")),
        ("PUT", "/policies/p?entity=q", ("put_policy", "q", "p", {"a": 1})),
        ("DELETE", "/policies/p", ("delete_policy", "", "p")),
        ("POST", "/policies/p/regenerate", ("regenerate_key", "", "p", {"a": 1})),
    ],
)
async def test_the_namespace_is_written(method: str, path: str, asked: tuple[object, ...]) -> None:
    node = DeskNode()
    refused = await ask(node, method, path, b'{"a": 1}', token=None)
    assert (refused.status, node.namespace.asked) == (401, [])
    answer = await ask(node, method, path, b'{"a": 1}')
    assert (answer.status, answer.json) == (200, {"did": asked[0]})
    assert node.namespace.asked == [asked]


@pytest.mark.rule("PRP-7")
async def test_an_operation_in_progress_is_a_conflict() -> None:
    answer = await ask(DeskNode(), "DELETE", "/entities/busy")
    assert answer.status == 409
    assert "40901" in answer.json["error"]["text"]
    assert answer.json["error"]["retryable"] is True


async def test_claims_and_cursors_are_told_and_taken_away() -> None:
    node = FakeNode()
    for kind in ("claims", "cursors"):
        answer = await ask(node, "GET", f"/entities/a/b/{kind}")
        assert answer.json == {"name": "a/b", kind: []}
    await ask(node, "POST", "/entities/q/claims/release", b'{"owner": "job"}')
    await ask(node, "POST", "/entities/q/claims/release", b'{"owner": "job", "forget": true}')
    await ask(node, "POST", "/entities/q/cursors/drop", b'{"name": "c"}')
    assert node.asked == [("q", "job", False), ("q", "job", True), ("q", "c")]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("claims/release", b"{}"),
        ("claims/release", b'{"owner": 1}'),
        ("claims/release", b'{"owner": "job", "forget": "yes"}'),
        ("claims/release", b'{"owner": "job", "more": 1}'),
        ("cursors/drop", b"{}"),
        ("cursors/drop", b'{"name": 1}'),
        ("cursors/drop", b'{"name": "c", "more": 1}'),
    ],
)
async def test_what_cannot_be_taken_away_is_told(path: str, body: bytes) -> None:
    node = FakeNode()
    answer = await ask(node, "POST", f"/entities/q/{path}", body)
    assert (answer.status, node.asked) == (400, [])
