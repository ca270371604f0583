"""`partibus context` and `partibus token`: connections by name, and tokens."""

import time
from pathlib import Path

from azure.servicebus import ServiceBusClient

from cli.command import Partibus
from support.sas import with_token
from support.server import ServerProcess

KEY = "SAS_KEY_VALUE"


def test_a_context_stands_for_its_connection(
    bus: ServerProcess, queue: str, tmp_path: Path
) -> None:
    partibus = Partibus(None, tmp_path)
    assert partibus("context", "list").out.startswith("There are no contexts.")
    flags = ("--connection-string", bus.connection_string)
    made = partibus("context", "add", "here", *flags)
    assert made.out.startswith("here: 127.0.0.1, the current context")
    partibus("send", queue, "x")
    assert len(partibus("peek", queue, "--context", "here").lines) == 1
    file = tmp_path / "partibus" / "contexts.toml"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_string_can_come_from_stdin(bus: ServerProcess, tmp_path: Path) -> None:
    partibus = Partibus(None, tmp_path)
    partibus("context", "add", "a", stdin=f"{bus.connection_string}\n")
    partibus("context", "add", "b", stdin="Endpoint=sb://b;SharedAccessKeyName=x;SharedAccessKey=y")
    listed = partibus("context", "list", "--json").json["contexts"]
    assert [(c["name"], c["current"]) for c in listed] == [("a", True), ("b", False)]
    assert partibus("context", "use", "b").out == "b is the current context\n"
    assert partibus("context", "remove", "b").out == "b is forgotten\n"
    assert [c["current"] for c in partibus("context", "list", "--json").json["contexts"]] == [False]


def test_secrets_are_never_printed(bus: ServerProcess, tmp_path: Path) -> None:
    partibus = Partibus(None, tmp_path)
    outputs = [
        partibus("context", "add", "a", "--connection-string", bus.connection_string),
        partibus("context", "list"),
        partibus("context", "list", "--json"),
        partibus("context", "use", "a"),
        partibus("doctor"),
        partibus("doctor", "--json"),
        partibus.try_("send", "no-such-queue", "x"),
        partibus("context", "remove", "a"),
    ]
    for done in outputs:
        assert KEY not in done.out + done.err


def test_a_file_that_others_can_read_is_pointed_out(bus: ServerProcess, tmp_path: Path) -> None:
    partibus = Partibus(None, tmp_path)
    partibus("context", "add", "a", "--connection-string", bus.connection_string)
    (tmp_path / "partibus" / "contexts.toml").chmod(0o644)
    assert "chmod 600" in partibus("context", "list").err


def test_wrong_contexts(tmp_path: Path) -> None:
    partibus = Partibus(None, tmp_path)
    assert partibus.try_("context", "use", "nowhere").code == 4
    assert partibus.try_("context", "remove", "nowhere").code == 4
    assert partibus.try_("context", "add", "no name", stdin="x").code == 2
    assert partibus.try_("context", "add", "a", stdin="nonsense").code == 2
    assert partibus.try_("send", "q", "x", "--context", "nowhere").code == 4


def test_a_token_opens_what_it_is_for(partibus: Partibus, bus: ServerProcess, queue: str) -> None:
    token = partibus("token", "create", queue).out.strip()
    with_it = with_token(bus.connection_string, token)
    partibus("send", queue, "x", "--connection-string", with_it)
    assert partibus.try_("send", f"{queue}-other", "x", "--connection-string", with_it).code == 6
    with (
        ServiceBusClient.from_connection_string(with_it, retry_total=0) as stock,
        stock.get_queue_receiver(queue) as receiver,
    ):
        assert len(receiver.peek_messages()) == 1
    refused = partibus.try_("token", "create", "--connection-string", with_it)
    assert refused.code == 2


def test_a_token_says_how_long_it_is_good(partibus: Partibus) -> None:
    made = partibus("token", "create", "--for", "10m", "--json").json
    assert made["token"].startswith("SharedAccessSignature sr=")
    expires = int(made["token"].split("&se=")[1].split("&")[0])
    assert 590 <= expires - time.time() <= 601
    assert made["policy"] == "RootManageSharedAccessKey"
    over_http = partibus("token", "create", "--http", "--json").json
    assert over_http["resource"].startswith("http://127.0.0.1:")
    assert partibus.try_("token", "create", "--for", "ever").code == 2
