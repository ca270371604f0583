"""What a test server offers over HTTP, as JSON under `/$partibus`.

Owns the paths of the clock, of namespaces per test and of the reset; a server started without their
flags refuses each with a message. Mounted by `ops.admin`, which checks the token and answers
errors. The token's key selects the namespace of a request, with its own clock.

    GET    /$partibus/clock                    {"now", "now_ms", "advanced_ms"}
    POST   /$partibus/clock/advance            {"by": "7d"}: answers when all that fell due is done
    POST   /$partibus/reset                    no entities and no faults, as at the start
    GET    /$partibus/namespaces               those besides the server's own
    POST   /$partibus/namespaces               {"name"}, optional; answers its key
    DELETE /$partibus/namespaces/NAME
"""

import contextlib
from typing import Final

from starlette.requests import Request

from partibus.domain.errors import InvalidOperation
from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.forms import name_of, read_body


async def _show_clock(node: Administration, request: Request) -> Answer:
    return node.clock.show()


async def _advance(node: Administration, request: Request) -> Answer:
    return await node.clock.advance(await read_body(request))


async def _reset(node: Administration, request: Request) -> Answer:
    with contextlib.suppress(InvalidOperation):  # where faults are switched off, there are none
        await node.faults.clear()
    await node.reset()  # last: nothing is deleted from a store that is down
    return {"reset": True}


async def _list(node: Administration, request: Request) -> Answer:
    return node.namespaces.list()


async def _create(node: Administration, request: Request) -> Answer:
    return await node.namespaces.create(await read_body(request))


async def _delete(node: Administration, request: Request) -> Answer:
    return await node.namespaces.delete(name_of(request))


TESTING_ROUTES: Final[Routes] = (
    ("GET", "/clock", _show_clock),
    ("POST", "/clock/advance", _advance),
    ("POST", "/reset", _reset),
    ("GET", "/namespaces", _list),
    ("POST", "/namespaces", _create),
    ("DELETE", "/namespaces/{name}", _delete),
)
