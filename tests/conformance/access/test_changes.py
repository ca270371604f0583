"""Credentials that end while they are in use: keys regenerated, policies deleted, rights taken.

Over each way to present them. Links go at the next sweep of their connection, which comes once a
second; a request over HTTP is judged as it comes.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import ConnectionException, LinkException
from proton.utils import LinkDetached

from conformance.access.amqp_operations import condition_of
from conformance.access.holders import key_of
from conformance.access.stage import Stage, grant
from conformance.rest.http_bus import HttpBus
from conformance.settlement.management import Management
from support.json_admin import JsonAdmin, Refused
from support.proton.client import Client
from support.proton.tokens import put_token
from support.proton.transactions import sender_via
from support.sas import sas_token
from support.server import ServerProcess
from support.websocket_tunnel import WebSocketTunnel

pytestmark = pytest.mark.group("proton")

UNAUTHORIZED = "amqp:unauthorized-access"
POLICY = "passing"
KEY = key_of(POLICY)
WAYS = ("plain", "token", "websocket")
Connect = Callable[[str], contextlib.AbstractContextManager[Client]]


@pytest.fixture(params=WAYS)
def connect(
    request: pytest.FixtureRequest, server: ServerProcess, tunnel: WebSocketTunnel
) -> Connect:
    """A connection of the policy, by each way."""

    @contextlib.contextmanager
    def connected(entity: str) -> Iterator[Client]:
        if request.param == "plain":
            with Client(server, user=POLICY, password=KEY) as client:
                yield client
            return
        port = tunnel.port if request.param == "websocket" else None
        audience = f"sb://localhost/{entity}"
        with Client(server, mechanism="ANONYMOUS", port=port) as client:
            token = sas_token(audience, policy=POLICY, key=KEY)
            if put_token(client, audience, token) != 202:
                raise ConnectionException(UNAUTHORIZED)
            yield client

    return connected


def take_right(admin: JsonAdmin, entity: str) -> None:
    grant(admin, POLICY, ("Listen",), KEY, entity)


ENDS: dict[str, Callable[[JsonAdmin, str], object]] = {
    "key regenerated": lambda admin, entity: admin.regenerate(POLICY, "primary", entity),
    "policy deleted": lambda admin, entity: admin.delete_policy(POLICY, entity),
    "entity deleted": lambda admin, entity: admin.delete(entity),
}


def heard(client: Client) -> str:
    """What the client hears of its one link."""
    with pytest.raises(LinkDetached) as dropped:
        client.wait(lambda: False, "the link to be dropped")
    return str(dropped.value.condition)


@pytest.mark.rule("SAS-7", "SAS-10")
@pytest.mark.parametrize("end", ENDS)
def test_links_end_with_what_they_rest_on(
    connect: Connect, admin: JsonAdmin, stage: Stage, end: str
) -> None:
    entity = stage.queue
    grant(admin, POLICY, ("Send",), KEY, entity)
    with connect(entity) as client:
        client.sender(entity)
        ENDS[end](admin, entity)
        assert heard(client) == ("amqp:not-found" if end == "entity deleted" else UNAUTHORIZED)
    with pytest.raises((ConnectionException, LinkException)) as refused, connect(entity) as client:
        client.sender(entity)
    assert condition_of(refused.value) == UNAUTHORIZED


@pytest.mark.rule("SAS-7", "SAS-8")
def test_a_link_ends_with_its_right_and_the_others_stay(
    connect: Connect, admin: JsonAdmin, stage: Stage
) -> None:
    entity = stage.queue
    grant(admin, POLICY, ("Send", "Listen"), KEY, entity)
    with connect(entity) as client:
        receiver = client.receiver(entity, credit=1)
        client.send(entity, "before")
        ((message, delivery),) = receiver.wait_for(1)
        assert message.body == "before"
        client.sender(entity)
        take_right(admin, entity)
        assert heard(client) == UNAUTHORIZED
        receiver.settle(delivery, delivery.RELEASED)
        with pytest.raises(LinkException):
            client.sender(entity)


@pytest.mark.rule("SAS-7")
def test_requests_of_a_standing_management_link_are_judged_anew(
    connect: Connect, admin: JsonAdmin, stage: Stage
) -> None:
    entity = stage.queue
    grant(admin, POLICY, ("Send", "Listen"), KEY, entity)
    with connect(entity) as client:
        node = Management(client, entity)
        assert node.peek(1).status == 204
        client.sender(entity)
        admin.regenerate(POLICY, "primary", entity)
        assert heard(client) == UNAUTHORIZED
        reply = node.peek(1)
        assert (reply.status, reply.condition) == (401, UNAUTHORIZED)


@pytest.mark.rule("SAS-7")
@pytest.mark.parametrize("end", ["key regenerated", "policy deleted"])
def test_requests_over_http_are_refused_at_once(
    server: ServerProcess, admin: JsonAdmin, stage: Stage, end: str
) -> None:
    rights = ("Manage", "Send", "Listen")
    grant(admin, POLICY, rights, KEY)
    bus = HttpBus(server.ready.http_port, policy=POLICY, key=KEY)
    token = sas_token("http://localhost/", policy=POLICY, key=KEY)

    def statuses() -> list[int]:
        described = bus.ask("GET", f"/{stage.queue}?api-version=2021-05").status
        try:
            admin.ask("GET", "/entities", token=token)
            listed = 200
        except Refused as refused:
            listed = refused.status
        return [bus.send(stage.queue, b"x").status, described, listed]

    assert statuses() == [201, 200, 200]
    ENDS[end](admin, "")
    assert statuses() == [401, 401, 401]
    if end == "key regenerated":
        admin.delete_policy(POLICY)


@pytest.mark.rule("SAS-7")
def test_the_other_key_and_the_new_one_are_good(
    server: ServerProcess, admin: JsonAdmin, stage: Stage
) -> None:
    grant(admin, POLICY, ("Send",), KEY, stage.queue)
    (secondary,) = [p["secondary_key"] for p in admin.policies(stage.queue) if p["name"] == POLICY]
    new = admin.regenerate(POLICY, "primary", stage.queue)["primary_key"]
    for key, status in ((KEY, 401), (secondary, 201), (new, 201)):
        resource = f"http://localhost/{stage.queue}"
        token = sas_token(resource, policy=POLICY, key=key)
        bus = HttpBus(server.ready.http_port)
        answer = bus.ask("POST", f"/{stage.queue}/messages", b"x", token=token)
        assert answer.status == status


@pytest.mark.rule("SAS-10")
@pytest.mark.parametrize("way", ["token", "websocket"])
def test_a_link_ends_when_its_token_does(
    server: ServerProcess, tunnel: WebSocketTunnel, stage: Stage, way: str
) -> None:
    audience = f"sb://localhost/{stage.queue}"
    port = tunnel.port if way == "websocket" else None
    with Client(server, mechanism="ANONYMOUS", port=port) as client:
        assert put_token(client, audience, sas_token(audience, lifetime_seconds=2)) == 202
        client.sender(stage.queue)
        assert heard(client) == UNAUTHORIZED


@pytest.mark.rule("SAS-8", "TXN-6")
def test_sending_via_an_entity_needs_the_right_on_both(
    server: ServerProcess, admin: JsonAdmin, stage: Stage
) -> None:
    via, destination = stage.queue, stage.doomed
    for entity in (via, destination):
        grant(admin, POLICY, ("Send",), KEY, entity)
    with Client(server, user=POLICY, password=KEY) as client:
        sender_via(client, via, destination)
        admin.delete_policy(POLICY, via)
        assert heard(client) == UNAUTHORIZED
        with pytest.raises(LinkException, match=UNAUTHORIZED):
            sender_via(client, via, destination)
        client.send(destination, "there it may still send")
