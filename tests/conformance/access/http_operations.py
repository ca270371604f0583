"""The operations of the table over HTTP: the data plane, the management API, the JSON surface.

Each operation is a request; what it needs is a right on an entity or on the namespace. Signatures
are made by hand, so nothing of the product is used but its answers.
"""

import contextlib
import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from conformance.access.holders import LISTEN, MANAGE, SEND, Holder, Level
from conformance.access.stage import Stage
from conformance.rest.http_bus import BATCH_TYPE, Answer, HttpBus
from support.management import entry
from support.server import ServerProcess

UNAUTHORIZED: Final = 401
TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One operation: the request, and who may make it."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    right: str = MANAGE
    level: Level = "entity"
    entity: str = ""
    """What a token of an entity is signed for."""
    status: int = 200

    def ask(self, server: ServerProcess, token: str | None) -> Answer:
        headers = dict(self.headers) if token is None else {**self.headers, "Authorization": token}
        ready = server.ready
        connection = http.client.HTTPConnection(
            ready.http_host, ready.http_port, timeout=TIMEOUT_SECONDS
        )
        with contextlib.closing(connection):
            connection.request(self.method, self.path, self.body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), response.getheaders())


Requests = dict[str, Request]


def data_plane(stage: Stage, root: HttpBus) -> Requests:
    """Send, receive and settle; the messages and their locks are there already."""
    queue = stage.queue
    for _ in range(6):
        assert root.send(queue, b"ready").status == 201
    to_complete, to_unlock, to_renew = (root.lock(queue).lock_path for _ in range(3))
    head = f"/{queue}/messages/head?timeout=0"
    batch = {"Content-Type": BATCH_TYPE}

    def sends(**request: object) -> Request:
        return Request(method="POST", right=SEND, status=201, entity=queue, **request)  # type: ignore[arg-type]

    def listens(method: str, path: str, status: int = 200) -> Request:
        return Request(method=method, path=path, right=LISTEN, status=status, entity=queue)

    return {
        "send": sends(path=f"/{queue}/messages", body=b"sent"),
        "send a batch": sends(path=f"/{queue}/messages", body=b'[{"Body": "x"}]', headers=batch),
        "receive under a lock": listens("POST", head, 201),
        "receive and delete": listens("DELETE", head),
        "receive a dead letter": listens(
            "DELETE", f"/{queue}/$deadletterqueue/messages/head?timeout=0", 204
        ),
        "complete": listens("DELETE", to_complete),
        "unlock": listens("PUT", to_unlock),
        "renew": listens("POST", to_renew),
    }


def management(stage: Stage) -> Requests:
    """Entities and rules as Atom documents."""
    queue, topic = stage.queue, stage.topic
    subscription, rule = f"{topic}/Subscriptions/added", f"{stage.subscription}/Rules/added"
    description = "<QueueDescription><LockDuration>PT30S</LockDuration></QueueDescription>"
    subscription_form = "<SubscriptionDescription></SubscriptionDescription>"
    rule_form = "<RuleDescription><Name>added</Name></RuleDescription>"
    table: Sequence[tuple[str, str, str, str, Level, str, int]] = (
        ("create a queue", "PUT", f"new-{queue}", description, "namespace", "", 201),
        ("list queues", "GET", "$Resources/Queues", "", "namespace", "", 200),
        ("list topics", "GET", "$Resources/Topics", "", "namespace", "", 200),
        ("namespace", "GET", "$namespaceinfo", "", "namespace", "", 200),
        ("get a queue, its counts, its policies", "GET", queue, "", "entity", queue, 200),
        ("update a queue", "PUT*", queue, description, "entity", queue, 200),
        ("delete a queue", "DELETE", stage.doomed, "", "entity", stage.doomed, 200),
        ("get a topic", "GET", topic, "", "entity", topic, 200),
        ("list subscriptions", "GET", f"{topic}/Subscriptions", "", "entity", topic, 200),
        ("create a subscription", "PUT", subscription, subscription_form, "entity", topic, 201),
        ("get a subscription", "GET", stage.subscription, "", "entity", topic, 200),
        ("update a subscription", "PUT*", subscription, subscription_form, "entity", topic, 200),
        ("delete a subscription", "DELETE", subscription, "", "entity", topic, 200),
        ("add a rule", "PUT", rule, rule_form, "entity", topic, 201),
        ("get a rule", "GET", rule, "", "entity", topic, 200),
        ("update a rule", "PUT*", rule, rule_form, "entity", topic, 200),
        ("list rules", "GET", f"{stage.subscription}/Rules", "", "entity", topic, 200),
        ("remove a rule", "DELETE", rule, "", "entity", topic, 200),
    )
    return {
        name: Request(
            method=method.rstrip("*"),
            path=f"/{path}?api-version=2021-05",
            body=entry(form) if form else b"",
            headers={"If-Match": "*"} if method == "PUT*" else {},
            level=level,
            entity=entity,
            status=status,
        )
        for name, method, path, form, level, entity, status in table
    }


def json_surface(stage: Stage) -> Requests:
    """What the command line asks; it is all the namespace's."""
    queue = stage.queue
    of_queue = f"?entity={queue}"
    table: Sequence[tuple[str, str, str, object]] = (
        ("create an entity", "POST", "/entities", {"name": f"made-{queue}", "kind": "queue"}),
        ("list entities", "GET", "/entities", None),
        ("show an entity and its counts", "GET", f"/entities/{queue}", None),
        ("update an entity", "PATCH", f"/entities/{queue}", {"properties": {}}),
        ("purge an entity", "POST", f"/entities/{queue}/purge", {}),
        ("list claims", "GET", f"/entities/{queue}/claims", None),
        ("release a claim", "POST", f"/entities/{queue}/claims/release", {"owner": "nobody"}),
        ("list cursors", "GET", f"/entities/{queue}/cursors", None),
        ("drop a cursor", "POST", f"/entities/{queue}/cursors/drop", {"name": "none"}),
        ("list stages", "GET", f"/entities/{queue}/stages", None),
        ("drop stages", "POST", f"/entities/{queue}/stages/drop", {"writer": "nobody"}),
        ("a page of entities", "GET", f"/entities?filter={queue}&top=5", None),
        ("defaults", "GET", "/defaults", None),
        ("try rules", "POST", f"/entities/{stage.topic}/rules/test", {"properties": {"a": 1}}),
        ("list pipelines", "GET", "/pipelines", None),
        ("delete an entity", "DELETE", f"/entities/{stage.doomed}", None),
        ("list stores", "GET", "/stores", None),
        ("list policies", "GET", f"/policies{of_queue}", None),
        ("put a policy", "PUT", f"/policies/made{of_queue}", {"rights": ["Send"]}),
        ("regenerate a key", "POST", f"/policies/made/regenerate{of_queue}", {"key": "primary"}),
        ("delete a policy", "DELETE", f"/policies/made{of_queue}", None),
        ("list the namespace's policies", "GET", "/policies", None),
        ("put a policy of the namespace", "PUT", f"/policies/{queue}", {"rights": ["Send"]}),
        ("delete a policy of the namespace", "DELETE", f"/policies/{queue}", None),
        ("list faults", "GET", "/faults", None),
        ("set a fault", "POST", "/faults", {"kind": "throttle", "entity": queue, "rate_per_s": 9}),
        ("clear faults", "DELETE", "/faults", None),
        ("list connections", "GET", "/connections", None),
        ("show a connection", "GET", "/connections/0-999999", None),
        ("close a connection", "DELETE", "/connections/0-999999", None),
        ("show the cluster", "GET", "/cluster", None),
        ("drain a node", "POST", "/cluster/drain", {"node": 1}),
        ("resume a node", "POST", "/cluster/resume", {"node": 1}),
        ("rebalance lanes", "POST", "/cluster/rebalance", {}),
        ("evict a node", "POST", "/cluster/evict", {"node": 1}),
        ("read the signals", "GET", "/signals", None),
        ("show the log's level", "GET", "/log", None),
        ("set the log's level", "PUT", "/log", {"level": "info"}),
        ("begin a backup", "POST", "/backups", {}),
        ("read a file of a backup", "GET", "/backups/none/stores/0/none", None),
        ("end a backup", "DELETE", "/backups/none", None),
        ("show the clock", "GET", "/clock", None),
        ("advance the clock", "POST", "/clock/advance", {"by": "7d"}),
        ("empty the namespace", "POST", "/reset", None),
        ("list namespaces", "GET", "/namespaces", None),
        ("make a namespace", "POST", "/namespaces", {}),
        ("delete a namespace", "DELETE", "/namespaces/none", None),
    )
    return {
        name: Request(
            method=method,
            path=f"/$partibus{path}",
            body=b"" if body is None else json.dumps(body).encode(),
            level="namespace",
            entity=queue,
            status=_json_status(path),
        )
        for name, method, path, body in table
    }


def message_surface(stage: Stage) -> Requests:
    """Messages as JSON: what any client with the right may do, and nobody else."""
    queue, sessions = stage.queue, stage.sessions
    table: Sequence[tuple[str, str, str, str, object, str, int]] = (
        ("look at messages", "GET", queue, "messages", None, LISTEN, 200),
        ("look at a message", "GET", queue, "messages/999999999", None, LISTEN, 404),
        ("send as JSON", "POST", queue, "messages", {"body": "x"}, SEND, 200),
        ("cancel", "POST", queue, "messages/cancel", {"numbers": [999999999]}, SEND, 404),
        ("delete deferred", "POST", queue, "messages/delete", {"numbers": ["99999"]}, LISTEN, 200),
        ("reasons", "GET", queue, "dead-letters", None, LISTEN, 200),
        ("resubmit", "POST", queue, "dead-letters/resubmit", {"dry_run": True}, LISTEN, 200),
        ("list sessions", "GET", sessions, "sessions", None, LISTEN, 200),
        ("state", "GET", sessions, "sessions/state?session=nobody", None, LISTEN, 200),
    )
    return {
        name: Request(
            method=method,
            path=f"/$partibus/entities/{entity}/{path}",
            body=b"" if body is None else json.dumps(body).encode(),
            right=right,
            entity=entity,
            status=status,
        )
        for name, method, entity, path, body, right, status in table
    }


def _json_status(path: str) -> int:
    """What those hear who may ask."""
    if path.endswith(("/release", "/drop", "/0-999999")) or path.startswith("/cluster"):
        return 404  # there is no such owner, cursor or connection; the server is alone
    # This server is not one for tests, and makes no such backup.
    return 400 if path.startswith(("/clock", "/reset", "/namespaces", "/backups/")) else 200


def expected(requests: Requests, holder: Holder) -> dict[str, int]:
    """The column of the table for a holder."""
    return {
        name: request.status if holder.may(request.right, request.level) else UNAUTHORIZED
        for name, request in requests.items()
    }


def observed(server: ServerProcess, requests: Requests, holder: Holder) -> dict[str, Answer]:
    """What came of every request."""
    return {
        name: request.ask(server, holder.token(request.entity))
        for name, request in requests.items()
    }
