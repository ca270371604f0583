"""The JSON interface described for programs: `/$partibus/openapi.json`, OpenAPI 3.1.

Owns the summary of each operation. Paths and methods are those of the mounted routes, so none is
left out; a test compares it with the operations whose rights are tested. It contains no data of the
namespace and needs no token.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from partibus import __version__
from partibus.domain.address import ADMINISTRATION

SUMMARIES: Final = {
    "GET /entities": "All entities with their totals; with parameters one page of them",
    "POST /entities": "Create an entity",
    "GET /entities/{name}": "One entity with fragments, totals, availability and properties",
    "PATCH /entities/{name}": "Change properties; those that are not named stay",
    "DELETE /entities/{name}": "Delete an entity with all its messages",
    "POST /entities/{name}/purge": "Delete the waiting messages of a subqueue",
    "GET /entities/{name}/messages": "Peek a page of messages",
    "POST /entities/{name}/messages": "Send or schedule a message",
    "GET /entities/{name}/messages/{number}": "One message with its body",
    "POST /entities/{name}/messages/cancel": "Cancel scheduled messages",
    "POST /entities/{name}/messages/delete": "Delete deferred messages",
    "GET /entities/{name}/dead-letters": "Dead letters counted by reason",
    "POST /entities/{name}/dead-letters/resubmit": "Resubmit, move or delete dead letters",
    "GET /entities/{name}/sessions": "Sessions that hold messages or state",
    "GET /entities/{name}/sessions/state": "The state of a session",
    "POST /entities/{name}/rules/test": "Which subscriptions a message would reach, and why",
    "GET /entities/{name}/claims": "Owners of claims, with the messages that each holds",
    "POST /entities/{name}/claims/release": "Release the messages that an owner has claimed",
    "GET /entities/{name}/cursors": "Cursors, with the position of each",
    "POST /entities/{name}/cursors/drop": "Drop a cursor",
    "GET /entities/{name}/stages": "Writers, with the messages that each has staged",
    "POST /entities/{name}/stages/drop": "Drop what a writer has staged",
    "GET /defaults": "The default properties of each kind of entity",
    "GET /pipelines": "Entities that pipelines read or write in bulk",
    "GET /bulk/{name}": "Where the fragments of an entity are read and written in bulk",
    "GET /stores": "All stores with state and sizes",
    "GET /policies": "Policies with their keys, of the namespace or of ?entity=",
    "PUT /policies/{policy}": "Create or change a policy",
    "DELETE /policies/{policy}": "Delete a policy",
    "POST /policies/{policy}/regenerate": "Regenerate one of the two keys",
    "GET /faults": "The active faults",
    "POST /faults": "Inject a fault",
    "DELETE /faults": "End all faults, or with ?key= one",
    "POST /backups": "Begin a backup",
    "GET /backups/{id}/stores/{store}/{file}": "A file of a backup",
    "DELETE /backups/{id}": "End a backup",
    "GET /clock": "The time of a server for tests",
    "POST /clock/advance": "Advance the time of a server for tests",
    "POST /reset": "Empty a server for tests",
    "GET /namespaces": "The namespaces of a server for tests",
    "POST /namespaces": "A namespace for a test",
    "DELETE /namespaces/{name}": "Delete a namespace of a test",
    "GET /live": "Rates, depths, stores and workers every second, as server-sent events",
    "GET /cluster": "Nodes, lanes and databases of the cluster, and lanes that are moving",
    "POST /cluster/drain": "Have a node hand over its lanes; with dry_run, show what would move",
    "POST /cluster/resume": "Have a node that was drained take lanes again",
    "POST /cluster/rebalance": "Spread the lanes evenly over the nodes",
    "POST /cluster/evict": "Remove a node from the cluster; its lanes are free at once",
    "GET /connections": "The open connections",
    "GET /connections/{id}": "One connection with all its links",
    "DELETE /connections/{id}": "Close a connection",
    "GET /signals": "Everything that /metrics counts, by entity and worker",
    "GET /events": "Events, as server-sent events",
    "GET /log": "The log level of each worker",
    "PUT /log": "Change the log level",
    "GET /session": "Whose token it is, and what it grants",
    "POST /session": "Sign the console in",
    "DELETE /session": "Sign the console out",
}
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_ERROR: Final = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "condition": {"type": "string"},
                "text": {"type": "string"},
                "tracking_id": {"type": "string"},
                "retryable": {"type": "boolean"},
            },
        }
    },
}


def openapi_route(routes: Iterable[Route]) -> Route:
    """The route that describes the others."""
    document = _document(routes)

    async def describe(_request: Request) -> Response:
        return JSONResponse(document)

    return Route(ADMINISTRATION + "/openapi.json", describe, methods=["GET"])


def _document(routes: Iterable[Route]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            summary = SUMMARIES.get(f"{method} {path.removeprefix(ADMINISTRATION)}", "")
            paths.setdefault(path, {})[method.lower()] = _operation(method, path, summary)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Partibus",
            "version": __version__,
            "description": "The administration and the messages of a server, as JSON.",
        },
        "paths": dict(sorted(paths.items())),
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "A shared access signature, or 'Bearer ' and a JSON web token.",
                }
            },
            "schemas": {"Error": _ERROR},
        },
    }


def _operation(method: str, path: str, summary: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": re.sub(r"\W+", "_", f"{method.lower()} {path}").strip("_"),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(path)
        ],
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {}}},
            "default": {"description": "Refused", "content": error},
        },
    }
    if method in ("POST", "PUT", "PATCH"):
        content = {"application/json": {"schema": {"type": "object"}}}
        operation["requestBody"] = {"required": False, "content": content}
    return operation
