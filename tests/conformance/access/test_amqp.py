"""The access table over AMQP: every right, every operation, every way to present a credential."""

import contextlib
from collections.abc import Iterator

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException

from conformance.access.amqp_operations import (
    OPERATIONS,
    AmqpHolder,
    condition_of,
    expected,
    observed,
    prepare,
)
from conformance.access.holders import HOLDERS, Holder
from conformance.access.stage import Stage, snapshot
from partibus.gateway.management import OPERATIONS as OFFERED
from support.json_admin import JsonAdmin
from support.proton.client import Client
from support.proton.tokens import put_token
from support.server import ServerProcess
from support.websocket_tunnel import WebSocketTunnel

pytestmark = pytest.mark.group("proton")


@contextlib.contextmanager
def with_tokens(
    server: ServerProcess, holder: Holder, stage: Stage, port: int | None = None
) -> Iterator[Client]:
    """A connection that puts a token for each entity; a bad one is refused with 401."""
    with Client(server, mechanism="ANONYMOUS", port=port) as client:
        for entity in stage.entities:
            token = holder.token(entity)
            if token is not None:
                status = put_token(client, f"sb://localhost/{entity}", token)
                assert status == (202 if holder.rights else 401)
        yield client


def check(
    server: ServerProcess, admin: JsonAdmin, holder: Holder, stage: Stage, client: Client
) -> None:
    """Do everything; what is not allowed is refused and leaves no trace."""
    with Client(server) as root:
        props = prepare(root, stage)
        before = snapshot(admin, stage)
        found = observed(AmqpHolder(client, stage, props))
        assert found == expected(lambda right: holder.may(right, "entity"))
        if not holder.rights:
            assert snapshot(admin, stage) == before


@pytest.mark.rule("SAS-8", "SAS-9", "ERR-12")
@pytest.mark.parametrize("holder", [h for h in HOLDERS if h.is_in_plain], ids=str)
def test_plain(server: ServerProcess, admin: JsonAdmin, holder: Holder, stage: Stage) -> None:
    try:
        client = Client(server, user=holder.policy, password=holder.key)
    except ConnectionException as error:
        assert not holder.rights
        assert condition_of(error) == "amqp:unauthorized-access"
        return
    with client:
        check(server, admin, holder, stage, client)


@pytest.mark.rule("SAS-6", "SAS-8", "SAS-9", "ERR-12")
@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_put_token(server: ServerProcess, admin: JsonAdmin, holder: Holder, stage: Stage) -> None:
    with with_tokens(server, holder, stage) as client:
        check(server, admin, holder, stage, client)


@pytest.mark.rule("SAS-6", "SAS-8", "SAS-9", "ERR-12")
@pytest.mark.parametrize("holder", HOLDERS, ids=str)
def test_put_token_over_websocket(
    server: ServerProcess, admin: JsonAdmin, tunnel: WebSocketTunnel, holder: Holder, stage: Stage
) -> None:
    with with_tokens(server, holder, stage, tunnel.port) as client:
        check(server, admin, holder, stage, client)


def test_the_table_has_every_operation_of_the_management_node() -> None:
    assert {operation.managed for operation in OPERATIONS.values()} - {None} == set(OFFERED)
