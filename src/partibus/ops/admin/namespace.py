"""Changes of the namespace over HTTP, as JSON under `/$partibus`.

Owns the paths of entities and policies that can be written; the node decides which changes are
valid, through its `NamespaceService`. Mounted by `ops.admin`, which checks the token and answers
errors. Policies of an entity are named by `?entity=NAME`, since its name has slashes.

    POST   /$partibus/entities                       {"name", "kind", "properties"}
    PATCH  /$partibus/entities/NAME                  {"properties"}: the others stay
    DELETE /$partibus/entities/NAME                  with all its messages
    GET    /$partibus/policies                       policies with their keys
    PUT    /$partibus/policies/POLICY                {"rights", "primary_key", "secondary_key"}
    DELETE /$partibus/policies/POLICY
    POST   /$partibus/policies/POLICY/regenerate     {"key": "primary" | "secondary"}
"""

from typing import Final

from starlette.requests import Request

from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.forms import ENTITY, name_of, read_body


async def _create(node: Administration, request: Request) -> Answer:
    return await node.namespace.create(await read_body(request))


async def _update(node: Administration, request: Request) -> Answer:
    return await node.namespace.update(name_of(request), await read_body(request))


async def _put_policy(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    return await node.namespace.put_policy(_entity(request), request.path_params["policy"], body)


async def _delete_policy(node: Administration, request: Request) -> Answer:
    return await node.namespace.delete_policy(_entity(request), request.path_params["policy"])


async def _regenerate(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    return await node.namespace.regenerate_key(
        _entity(request), request.path_params["policy"], body
    )


def _entity(request: Request) -> str:
    """The entity of the policies; "" is the namespace."""
    return request.query_params.get("entity", "")


NAMESPACE_ROUTES: Final[Routes] = (
    ("POST", "/entities", _create),
    ("PATCH", ENTITY, _update),
    ("DELETE", ENTITY, lambda node, request: node.namespace.delete(name_of(request))),
    ("GET", "/policies", lambda node, request: node.namespace.policies(_entity(request))),
    ("PUT", "/policies/{policy}", _put_policy),
    ("DELETE", "/policies/{policy}", _delete_policy),
    ("POST", "/policies/{policy}/regenerate", _regenerate),
)
