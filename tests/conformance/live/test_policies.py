"""Policies and keys that change while stock clients use them, and JSON web tokens."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)

from support.json_admin import JsonAdmin, Refused
from support.sas import with_key
from support.server import ServerProcess

REFUSALS = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)
SWEEPS_MAX = 30
"""A link goes at the next sweep, which comes once a second."""


def connect(server: ServerProcess, policy: dict[str, Any], key: str) -> ServiceBusClient:
    text = with_key(server.connection_string, policy["name"], policy[key])
    return ServiceBusClient.from_connection_string(text, retry_total=0)


def send(client: ServiceBusClient, name: str) -> None:
    with client.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def receive_until_refused(client: ServiceBusClient, name: str, after: Any) -> ServiceBusError:
    """What ends a receiver that stands open while something is done to its policy."""
    with client.get_queue_receiver(name) as receiver:
        receiver.receive_messages(max_wait_time=0.5)
        after()
        for _ in range(SWEEPS_MAX):
            try:
                receiver.receive_messages(max_wait_time=1)
            except ServiceBusError as error:
                return error
    raise AssertionError("nothing ended the receiver")


def test_a_new_policy_lets_its_clients_in_through_every_worker(
    admin: JsonAdmin, server: ServerProcess, name: str
) -> None:
    admin.create(name)
    policy = admin.put_policy("sender", ["Send"], entity=name)
    for key in ("primary_key", "secondary_key") * 2:
        with connect(server, policy, key) as client:
            send(client, name)
    with (
        connect(server, policy, "primary_key") as client,
        pytest.raises(REFUSALS),
        client.get_queue_receiver(name) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)
    assert admin.get(name)["totals"]["active"] == 4


@pytest.mark.rule("SAS-7")
def test_a_regenerated_key_ends_its_links_and_the_other_key_goes_on(
    admin: JsonAdmin, server: ServerProcess, name: str
) -> None:
    admin.create(name)
    policy = admin.put_policy("worker", ["Send", "Listen"], entity=name)
    with (
        connect(server, policy, "primary_key") as old,
        connect(server, policy, "secondary_key") as other,
    ):
        with other.get_queue_receiver(name) as receiver:
            receiver.receive_messages(max_wait_time=0.5)
            error = receive_until_refused(
                old, name, lambda: admin.regenerate("worker", "primary", entity=name)
            )
            assert isinstance(error, REFUSALS)
            send(other, name)
            assert receiver.receive_messages(max_wait_time=5)
        with pytest.raises(REFUSALS):
            send(old, name)
    (now,) = admin.policies(name)
    assert now["primary_key"] != policy["primary_key"]
    with connect(server, now, "primary_key") as new:
        send(new, name)


def test_a_deleted_policy_ends_its_links(
    admin: JsonAdmin, server: ServerProcess, name: str
) -> None:
    admin.create(name)
    policy = admin.put_policy("short", ["Listen"])
    with connect(server, policy, "primary_key") as client:
        error = receive_until_refused(client, name, lambda: admin.delete_policy("short"))
    assert isinstance(error, REFUSALS)


def test_keys_are_never_in_the_log(admin: JsonAdmin, server: ServerProcess, name: str) -> None:
    admin.create(name)
    policy = admin.put_policy("quiet", ["Send"], entity=name)
    rolled = admin.regenerate("quiet", "primary", entity=name)
    with pytest.raises(Refused):
        admin.put_policy("quiet", ["Manage"], entity=name)
    log = server.log_text()
    for shown in (policy, rolled):
        assert shown["primary_key"] not in log and shown["secondary_key"] not in log


# --- JSON web tokens ------------------------------------------------------------------------------

SECRET = "a secret of the identity provider, long enough"
ISSUER, AUDIENCE = "https://issuer.example/", "https://servicebus.azure.net/"


def token_for(role: str, lifetime_s: int = 300, secret: str = SECRET) -> str:
    fields = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time.time()) + lifetime_s,
        "roles": [role],
    }
    return jwt.encode(fields, secret, algorithm="HS256")


class Credential:
    """What `azure.identity` would be: tokens of one identity."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *scopes: str, **kwargs: object) -> AccessToken:
        return AccessToken(self._token, int(time.time()) + 300)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that accepts tokens of one issuer."""
    directory: Path = tmp_path_factory.mktemp("jwt")
    (directory / "secret").write_text(SECRET, encoding="utf-8")
    config = directory / "namespace.toml"
    config.write_text(
        f'[jwt]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\nkey_file = "secret"\n'
        '[jwt.roles]\nsender = ["Send"]\nreader = ["Listen"]\n'
        'owner = ["Manage", "Send", "Listen"]\n'
        '[[queue]]\nname = "q"\n',
        encoding="utf-8",
    )
    with ServerProcess(directory, config) as process:
        yield process


def identity(server: ServerProcess, token: str) -> ServiceBusClient:
    return ServiceBusClient(
        f"localhost:{server.ready.amqp_port}",
        Credential(token),
        custom_endpoint_address=f"sb://localhost:{server.ready.amqp_port}",
        transport_type=TransportType.Amqp,
        connection_verify=str(server.ready.ca),
        retry_total=0,
    )


@pytest.mark.rule("SAS-9")
def test_a_token_of_the_issuer_lets_in_by_its_role(guarded: ServerProcess) -> None:
    with (
        identity(guarded, token_for("sender")) as sends,
        identity(guarded, token_for("reader")) as reads,
    ):
        send(sends, "q")
        with reads.get_queue_receiver("q") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=5)
            receiver.complete_message(message)
        with pytest.raises(REFUSALS):
            send(reads, "q")


@pytest.mark.parametrize(
    "token",
    [
        token_for("stranger"),
        token_for("sender", lifetime_s=-5),
        token_for("sender", secret=SECRET[::-1]),
    ],
    ids=["role", "expired", "signature"],
)
def test_other_tokens_are_refused(guarded: ServerProcess, token: str) -> None:
    # With an endpoint of its own the client takes a refused token for a broken connection.
    with identity(guarded, token) as client, pytest.raises(ServiceBusConnectionError):
        send(client, "q")


def test_http_takes_them_as_bearer(guarded: ServerProcess) -> None:
    admin = JsonAdmin(guarded)
    shown = admin.ask("GET", "/entities/q", token=f"Bearer {token_for('owner')}")
    assert shown["name"] == "q"
    for token in (token_for("sender"), token_for("owner", lifetime_s=-5)):
        with pytest.raises(Refused) as refused:
            admin.ask("GET", "/entities/q", token=f"Bearer {token}")
        assert refused.value.status == 401
