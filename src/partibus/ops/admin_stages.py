"""Stages of an entity over HTTP, as operators see and drop them.

Owns the two paths and the form of a drop:

    GET    /$partibus/entities/NAME/stages        who writes in stages, and what is staged
    POST   /$partibus/entities/NAME/stages/drop   {"writer", "forget"}

The node does the work. Mounted by `ops.admin`, which checks the token.
"""

from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from partibus.domain.errors import ArgumentError

if TYPE_CHECKING:
    from partibus.ops.admin import Administration, Answer

_DROP_FIELDS: Final = {"writer", "forget"}


async def list_stages(node: "Administration", request: Request) -> "Answer":
    """Every writer with what it has staged."""
    return await node.stages.stages(request.path_params["name"])


async def drop_stages(node: "Administration", request: Request) -> "Answer":
    """Drop what a writer has staged."""
    from partibus.ops.admin import read_body

    body = await read_body(request)
    writer, forget = body.get("writer"), body.get("forget", False)
    if not isinstance(writer, str) or not isinstance(forget, bool) or set(body) - _DROP_FIELDS:
        raise ArgumentError("A drop needs 'writer', a string, and accepts 'forget', a boolean.")
    return await node.stages.drop(request.path_params["name"], writer, forget)
