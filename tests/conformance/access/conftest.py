"""A server whose namespace has policies of every right, and a stage for each test.

The fixture `server` has the name of the one two folders up and stands in for it here.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.access.holders import NAMESPACE_HOLDERS, OTHER, OTHER_HOLDER, RIGHTS
from conformance.access.stage import Stage, build, grant
from support.json_admin import JsonAdmin
from support.server import ServerProcess
from support.websocket_tunnel import WebSocketTunnel

_NUMBERS = itertools.count()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("access")
    config = directory / "namespace.toml"
    config.write_text(f'[[queue]]\nname = "{OTHER}"\n', encoding="utf-8")
    with ServerProcess(directory, config, "--faults") as process:
        admin = JsonAdmin(process)
        for holder in NAMESPACE_HOLDERS:
            grant(admin, holder.policy, holder.rights, holder.key)
        grant(admin, OTHER_HOLDER.policy, RIGHTS["Manage"], OTHER_HOLDER.key, OTHER)
        yield process


@pytest.fixture(scope="package")
def tunnel(server: ServerProcess) -> Iterator[WebSocketTunnel]:
    with WebSocketTunnel(server.ready.amqp_port) as opened:
        yield opened


@pytest.fixture
def admin(server: ServerProcess) -> JsonAdmin:
    return JsonAdmin(server)


@pytest.fixture
def stage(admin: JsonAdmin) -> Stage:
    return build(admin, next(_NUMBERS))
