"""What pipelines hold of an entity over HTTP, as operators see and release it.

Owns the paths and the forms of the requests:

    GET    /$partibus/entities/NAME/claims           who holds messages in bulk
    POST   /$partibus/entities/NAME/claims/release   {"owner", "forget"}
    GET    /$partibus/entities/NAME/cursors          cursors and their positions
    POST   /$partibus/entities/NAME/cursors/drop     {"name"}
    GET    /$partibus/entities/NAME/stages           who writes in stages, and what is staged
    POST   /$partibus/entities/NAME/stages/drop      {"writer", "forget"}

The node does the work. Mounted by `ops.admin`, which checks the token.
"""

from typing import Final

from starlette.requests import Request

from partibus.domain.errors import ArgumentError
from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.forms import ENTITY, name_of, read_body


async def _release(node: Administration, request: Request) -> Answer:
    owner, forget = await _whose(request, "release", "owner")
    return await node.pipelines.release(name_of(request), owner, forget)


async def _drop_cursor(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    if set(body) != {"name"} or not isinstance(body["name"], str):
        raise ArgumentError("A drop needs 'name', the name of the cursor.")
    return await node.pipelines.drop(name_of(request), body["name"])


async def _drop_stages(node: Administration, request: Request) -> Answer:
    writer, forget = await _whose(request, "drop", "writer")
    return await node.stages.drop(name_of(request), writer, forget)


async def _whose(request: Request, work: str, key: str) -> tuple[str, bool]:
    """Whose part is meant, and whether they are forgotten altogether."""
    body = await read_body(request)
    who, forget = body.get(key), body.get("forget", False)
    if not isinstance(who, str) or not isinstance(forget, bool) or set(body) - {key, "forget"}:
        raise ArgumentError(f"A {work} needs '{key}', a string, and accepts 'forget', a boolean.")
    return who, forget


PIPELINE_ROUTES: Final[Routes] = (
    ("GET", ENTITY + "/claims", lambda node, request: node.pipelines.claims(name_of(request))),
    ("POST", ENTITY + "/claims/release", _release),
    ("GET", ENTITY + "/cursors", lambda node, request: node.pipelines.cursors(name_of(request))),
    ("POST", ENTITY + "/cursors/drop", _drop_cursor),
    ("GET", ENTITY + "/stages", lambda node, request: node.stages.stages(name_of(request))),
    ("POST", ENTITY + "/stages/drop", _drop_stages),
)
