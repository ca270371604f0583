"""The nodes and lanes of a cluster over HTTP.

Owns the paths:

    GET  /$partibus/cluster             nodes, lanes, databases, and what moves
    POST /$partibus/cluster/drain       {"node": 2}: it hands its lanes over
    POST /$partibus/cluster/resume      {"node": 2}: it takes lanes again
    POST /$partibus/cluster/rebalance   {}: lanes are spread evenly over the nodes
    POST /$partibus/cluster/evict       {"node": 3, "force": false}: it is removed

`"dry_run": true` answers what would move, and changes nothing. An answer does not wait for the
lanes: `GET` shows how far they are. A server that is alone answers 404. Mounted by `ops.admin`,
which checks the token.
"""

from collections.abc import Collection
from typing import Final

from starlette.requests import Request

from partibus.domain.errors import ArgumentError
from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.forms import read_body


async def _drain(node: Administration, request: Request) -> Answer:
    body = await _body(request, {"node", "dry_run"})
    return await node.cluster.drain(_number(body), _flag(body, "dry_run"))


async def _resume(node: Administration, request: Request) -> Answer:
    return await node.cluster.resume(_number(await _body(request, {"node"})))


async def _rebalance(node: Administration, request: Request) -> Answer:
    return await node.cluster.rebalance(_flag(await _body(request, {"dry_run"}), "dry_run"))


async def _evict(node: Administration, request: Request) -> Answer:
    body = await _body(request, {"node", "force", "dry_run"})
    return await node.cluster.evict(_number(body), _flag(body, "force"), _flag(body, "dry_run"))


async def _body(request: Request, accepted: Collection[str]) -> Answer:
    body = await read_body(request)
    unknown = set(body) - set(accepted)
    if unknown:
        names = ", ".join(sorted(accepted))
        raise ArgumentError(f"'{min(unknown)}' is unknown; this request accepts {names}.")
    return body


def _number(body: Answer) -> int:
    number = body.get("node")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ArgumentError("'node' must be the number of a node.")
    return number


def _flag(body: Answer, name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise ArgumentError(f"'{name}' must be true or false.")
    return value


CLUSTER_ROUTES: Final[Routes] = (
    ("GET", "/cluster", lambda node, _: node.cluster.status()),
    ("POST", "/cluster/drain", _drain),
    ("POST", "/cluster/resume", _resume),
    ("POST", "/cluster/rebalance", _rebalance),
    ("POST", "/cluster/evict", _evict),
)
