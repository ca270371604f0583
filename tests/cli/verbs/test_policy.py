"""`partibus policy`: policies of the namespace and of entities, and what their keys open."""

import itertools

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError

from cli.command import Partibus
from support.sas import with_key
from support.server import ServerProcess

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"policy-{next(_numbers)}"


def send(connection_string: str, queue: str) -> None:
    client = ServiceBusClient.from_connection_string(connection_string, retry_total=0)
    with client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("x"))


def test_a_policy_of_the_namespace(partibus: Partibus, name: str) -> None:
    made = partibus("policy", "create", name, "Send", "LISTEN", "--json").json
    assert made == {"name": name, "rights": ["Send", "Listen"]}
    listed = partibus("policy", "list", "--json").json["policies"]
    assert made in listed
    assert {"name": "Reader", "rights": ["Listen"]} in listed
    assert name in partibus("policy", "list").out
    assert partibus("policy", "show", name).out == f"{name} of the namespace: Send, Listen\n"
    partibus("policy", "delete", name, "--yes")
    done = partibus.try_("policy", "show", name)
    assert (done.code, done.err.count(name)) == (4, 1)


def test_a_connection_string_that_works(partibus: Partibus, queue: str, name: str) -> None:
    made = partibus("policy", "create", name, "send", "-e", queue, "--keys", "--json").json
    send(made["connection_string"], queue)
    shown = partibus("policy", "show", name, "--entity", queue, "--keys").out
    for secret in ("primary_key", "secondary_key", "connection_string"):
        assert made[secret] in shown
    assert f"EntityPath={queue};" in made["connection_string"]
    assert partibus.try_("doctor", "--connection-string", made["connection_string"]).code == 0
    assert partibus("policy", "list").out.count(name) == 0
    assert name in partibus("policy", "list", "-e", queue).out


def test_keys_are_shown_on_demand_only(partibus: Partibus, queue: str, name: str) -> None:
    keys = ("--primary-key", "first-key", "--secondary-key", "second-key")
    outputs = [
        partibus("policy", "create", name, "send", "-e", queue, *keys).out,
        partibus("policy", "show", name, "-e", queue, "--json").out,
        partibus("policy", "list", "-e", queue, "--json").out,
        partibus("policy", "update", name, "listen", "-e", queue).out,
    ]
    assert not any("-key" in out or "_key" in out for out in outputs)
    shown = partibus("policy", "show", name, "-e", queue, "--keys", "--json").json
    assert (shown["primary_key"], shown["secondary_key"]) == ("first-key", "second-key")


def test_manage_includes_the_others(partibus: Partibus, name: str) -> None:
    made = partibus("policy", "create", name, "manage", "--json").json
    assert made["rights"] == ["Manage", "Send", "Listen"]
    changed = partibus("policy", "update", name, "send,listen", "--json").json
    assert changed["rights"] == ["Send", "Listen"]
    partibus("policy", "delete", name, "-y")


@pytest.mark.rule("SAS-7")
def test_a_key_is_replaced(bus: ServerProcess, partibus: Partibus, queue: str, name: str) -> None:
    before = partibus("policy", "create", name, "send", "-e", queue, "--keys", "--json").json
    words = ("policy", "regenerate", name, "-e", queue, "--yes", "--keys", "--json")
    after = partibus(*words).json
    assert after["primary_key"] != before["primary_key"]
    assert after["secondary_key"] == before["secondary_key"]
    with pytest.raises(ServiceBusAuthenticationError):
        send(before["connection_string"], queue)
    send(after["connection_string"], queue)
    send(with_key(bus.connection_string, name, before["secondary_key"]), queue)
    other = partibus(*words, "--key", "secondary").json
    assert other["primary_key"] == after["primary_key"]
    with pytest.raises(ServiceBusError):
        send(with_key(bus.connection_string, name, before["secondary_key"]), queue)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "Reader", "send"), 8, "has a policy 'Reader' already"),
        (("create", "x", "fly"), 2, "'fly' is not a valid right"),
        (("create", "a b", "send"), 2, "is not a valid policy name"),
        (("create", "a/b", "send"), 2, "is not a valid policy name"),
        (("update", "nobody", "send"), 4, "has no policy 'nobody'"),
        (("delete", "nobody", "--yes"), 4, "has no policy 'nobody'"),
        (("regenerate", "nobody", "--yes"), 4, "has no policy 'nobody'"),
        (("regenerate", "Reader", "--key", "third"), 2, "third"),
        (("delete", "Reader"), 2, "give --yes"),
        (("list", "--entity", "nowhere"), 4, "'nowhere' could not be found"),
        (("create", "x", "send", "--entity", "nowhere"), 4, "'nowhere' could not be found"),
    ],
)
def test_what_is_refused(partibus: Partibus, words: tuple[str, ...], code: int, said: str) -> None:
    done = partibus.try_("policy", *words)
    assert done.code == code, done
    assert said in done.err


def test_a_policy_without_the_right_may_not(bus: ServerProcess, partibus: Partibus) -> None:
    limited = Partibus(with_key(bus.connection_string, "Reader", "reader-key"))
    done = limited.try_("policy", "list")
    assert done.code == 6
    assert "'Manage' claim(s) are required" in done.err
