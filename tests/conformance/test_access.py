"""Who may do what: keys, tokens, audiences and rights, as the stock client reports them."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from support.namespace import POLICIES, QUEUE_POLICIES, ROOT_KEY, ROOT_POLICY, Queues
from support.receiving import bodies, collect
from support.sas import sas_token, with_key, with_token
from support.server import ServerProcess


def send(connection_string: str, queue: str) -> None:
    client = ServiceBusClient.from_connection_string(connection_string, retry_total=0)
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("hello"))


def receive(connection_string: str, queue: str) -> list[str]:
    client = ServiceBusClient.from_connection_string(connection_string, retry_total=0)
    with client, client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        receiver.complete_message(message)
    return bodies([message])


def resource(server: ServerProcess, path: str) -> str:
    return f"sb://localhost:{server.ready.amqp_port}/{path}"


@pytest.fixture
def guarded(queues: Queues) -> str:
    """A queue with policies of its own."""
    return queues.fresh("guarded")


@pytest.mark.rule("SAS-4", "SAS-5")
def test_the_root_policy_may_send_and_listen(server: ServerProcess, queue: str) -> None:
    root = with_key(server.connection_string, ROOT_POLICY, ROOT_KEY)
    send(root, queue)
    assert receive(root, queue) == ["hello"]


@pytest.mark.rule("ERR-12")
def test_a_wrong_key_is_refused(server: ServerProcess, queue: str) -> None:
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_key(server.connection_string, ROOT_POLICY, "wrong"), queue)


def test_an_unknown_policy_is_refused(server: ServerProcess, queue: str) -> None:
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_key(server.connection_string, "Nobody", ROOT_KEY), queue)


@pytest.mark.rule("SAS-5")
def test_a_token_made_by_hand_is_accepted(server: ServerProcess, queue: str) -> None:
    send(with_token(server.connection_string, sas_token(resource(server, queue))), queue)


def test_an_expired_token_is_refused(server: ServerProcess, queue: str) -> None:
    token = sas_token(resource(server, queue), lifetime_seconds=-60)
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(server.connection_string, token), queue)


def test_a_token_for_another_queue_is_refused(
    server: ServerProcess, queue: str, queues: Queues
) -> None:
    token = sas_token(resource(server, queues.fresh()))
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(server.connection_string, token), queue)


def test_a_token_for_a_name_that_merely_begins_alike_is_refused(
    server: ServerProcess, queue: str
) -> None:
    token = sas_token(resource(server, queue[:-1]))
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(server.connection_string, token), queue)


def test_a_changed_token_is_refused(server: ServerProcess, queue: str, queues: Queues) -> None:
    token = sas_token(resource(server, queues.fresh("plain")))
    forged = sas_token(resource(server, queue), key="guess")
    signature = token.split("sig=")[1].split("&")[0]
    forged = forged.replace(forged.split("sig=")[1].split("&")[0], signature)
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_token(server.connection_string, forged), queue)


@pytest.mark.rule("SAS-6")
def test_a_token_for_the_namespace_is_valid_for_what_is_below(
    server: ServerProcess, queue: str
) -> None:
    token = sas_token(resource(server, ""))
    send(with_token(server.connection_string, token), queue)
    assert receive(with_token(server.connection_string, token), queue) == ["hello"]


@pytest.mark.rule("SAS-3", "SAS-8")
def test_a_policy_that_may_only_send(server: ServerProcess, queue: str) -> None:
    key, _ = POLICIES["NamespaceSend"]
    limited = with_key(server.connection_string, "NamespaceSend", key)
    send(limited, queue)
    with pytest.raises(ServiceBusAuthorizationError):
        receive(limited, queue)
    assert receive(server.connection_string, queue) == ["hello"]


@pytest.mark.rule("SAS-3", "SAS-8")
def test_a_policy_that_may_only_listen(server: ServerProcess, queue: str) -> None:
    key, _ = POLICIES["NamespaceListen"]
    limited = with_key(server.connection_string, "NamespaceListen", key)
    with pytest.raises(ServiceBusAuthorizationError):
        send(limited, queue)
    send(server.connection_string, queue)
    assert receive(limited, queue) == ["hello"]


@pytest.mark.rule("SAS-1", "SAS-3", "SAS-8")
def test_policies_of_one_queue(server: ServerProcess, guarded: str) -> None:
    sender, listener = (
        with_key(server.connection_string, name, key) for name, (key, _) in QUEUE_POLICIES.items()
    )
    send(sender, guarded)
    with pytest.raises(ServiceBusAuthorizationError):
        receive(sender, guarded)
    assert receive(listener, guarded) == ["hello"]


@pytest.mark.rule("SAS-6")
def test_a_policy_of_one_queue_is_nothing_elsewhere(server: ServerProcess, queue: str) -> None:
    key, _ = QUEUE_POLICIES["QueueSend"]
    with pytest.raises(ServiceBusAuthenticationError):
        send(with_key(server.connection_string, "QueueSend", key), queue)


def test_listening_covers_the_dead_letter_queue(server: ServerProcess, queue: str) -> None:
    send(server.connection_string, queue)
    client = ServiceBusClient.from_connection_string(server.connection_string)
    with client, client.get_queue_receiver(queue) as receiver:
        receiver.dead_letter_message(*collect(receiver, 1))
    key, _ = POLICIES["NamespaceListen"]
    limited = with_key(server.connection_string, "NamespaceListen", key)
    assert receive(limited, f"{queue}/$DeadLetterQueue") == ["hello"]
