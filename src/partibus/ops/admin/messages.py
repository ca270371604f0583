"""Messages over HTTP as JSON, for the console and for scripts.

Owns the paths and how their parameters are read. The bus checks the rights as for any client:
Listen to read, Send to send, both to resubmit. Mounted by `ops.admin`; the node's message service
does the work.

    GET    /$partibus/entities/NAME/messages            ?subqueue=&from=&max=&state=&session=
                                                        &search=&since=&until=
    GET    /$partibus/entities/NAME/messages/NUMBER     one message with its body; ?subqueue=
    POST   /$partibus/entities/NAME/messages            a message as `partibus send --json` reads it
    POST   /$partibus/entities/NAME/messages/cancel     {"numbers"}: scheduled ones
    POST   /$partibus/entities/NAME/messages/delete     {"numbers"}: deferred ones
    GET    /$partibus/entities/NAME/dead-letters        counted by reason
    POST   /$partibus/entities/NAME/dead-letters/resubmit
               {"to", "reason", "numbers", "edit", "discard", "new_id", "max", "dry_run"}
    GET    /$partibus/entities/NAME/sessions            their ids
    GET    /$partibus/entities/NAME/sessions/state      ?session=ID
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import ArgumentError
from partibus.ops.admin.administration import Administration, Answer
from partibus.ops.admin.forms import (
    ENTITY,
    Endpoint,
    answering,
    fresh_json,
    name_of,
    read_body,
)
from partibus.ops.admin.session import presented_token, refuse_changes

Work = Callable[[Administration, Request, str | None], Awaitable[Answer]]
MESSAGE_BYTES_MAX: Final = 1 << 20


async def _peek(node: Administration, request: Request, token: str | None) -> Answer:
    query = request.query_params
    page: dict[str, Any] = {
        key: query[key]
        for key in ("subqueue", "state", "session", "reason", "search", "since", "until")
        if query.get(key)
    }
    if "from" in query:
        page["start"] = query["from"]
    if "max" in query:
        page["count"] = _number(query["max"], "max")
    return await node.messages.peek(token, name_of(request), node.messages.page_request(**page))


async def _show(node: Administration, request: Request, token: str | None) -> Answer:
    subqueue = request.query_params.get("subqueue", "active")
    number = _number(request.path_params["number"], "the number")
    return await node.messages.show(token, name_of(request), subqueue, number)


async def _send(node: Administration, request: Request, token: str | None) -> Answer:
    return await node.messages.send(token, name_of(request), await _body(request))


async def _cancel(node: Administration, request: Request, token: str | None) -> Answer:
    return await node.messages.cancel(token, name_of(request), _numbers(await _body(request)))


async def _delete(node: Administration, request: Request, token: str | None) -> Answer:
    numbers = _numbers(await _body(request))
    return await node.messages.delete_deferred(token, name_of(request), numbers)


async def _reasons(node: Administration, request: Request, token: str | None) -> Answer:
    return await node.messages.reasons(token, name_of(request))


async def _resubmit(node: Administration, request: Request, token: str | None) -> Answer:
    return await node.messages.resubmit(token, name_of(request), await _body(request))


async def _sessions(node: Administration, request: Request, token: str | None) -> Answer:
    return await node.messages.sessions(token, name_of(request))


async def _session_state(node: Administration, request: Request, token: str | None) -> Answer:
    session_id = request.query_params.get("session", "")
    return await node.messages.session_state(token, name_of(request), session_id)


TABLE: Final[tuple[tuple[str, str, Work], ...]] = (
    ("GET", "/messages", _peek),
    ("POST", "/messages", _send),
    ("POST", "/messages/cancel", _cancel),
    ("POST", "/messages/delete", _delete),
    ("GET", "/messages/{number}", _show),
    ("GET", "/dead-letters", _reasons),
    ("POST", "/dead-letters/resubmit", _resubmit),
    ("GET", "/sessions", _sessions),
    ("GET", "/sessions/state", _session_state),
)


def message_routes(node: Administration) -> list[Route]:
    """The routes of a node; they come before that of the entity, whose name may contain slashes."""

    def endpoint(work: Work) -> Endpoint:
        @answering
        async def answer(request: Request) -> Response:
            token = presented_token(request)
            refuse_changes(request, node.console_mode)
            return fresh_json(await work(node, request, token))

        return answer

    return [
        Route(ADMINISTRATION + ENTITY + path, endpoint(work), methods=[method])
        for method, path, work in TABLE
    ]


async def _body(request: Request) -> Answer:
    return await read_body(request, MESSAGE_BYTES_MAX)


def _number(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise ArgumentError(f"{what} must be a whole number, not '{text[:30]}'.")
    return int(text)


def _numbers(body: dict[str, Any]) -> list[int]:
    numbers = body.get("numbers")
    if not isinstance(numbers, list) or not numbers:
        raise ArgumentError("'numbers' must be a list of sequence numbers.")
    # As text too: it exceeds JavaScript's integers.
    return [_number(str(number), "a sequence number") for number in numbers]
