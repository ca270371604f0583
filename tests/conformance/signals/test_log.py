"""Every refusal leaves a line with the tracking id that the client saw; keys never do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from adversity.waiting import wait_until
from conformance.rest.http_bus import HttpBus
from support.json_admin import JsonAdmin, Refused
from support.namespace import write_namespace
from support.server import ServerProcess

TRACKING = re.compile(r"TrackingId:([0-9a-f-]{36})")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("log")
    flags = ("--log-format", "json", "--audit-log", str(directory / "audit.log"))
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, *flags) as process:
        yield process


def lines(server: ServerProcess, logger: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in server.log_text().splitlines()]
    return [line for line in found if line["logger"] == logger]


def audit(server: ServerProcess) -> list[dict[str, Any]]:
    path = server.data.parent / "audit.log"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_refused_token_is_in_the_log(server: ServerProcess, queue: str) -> None:
    wrong = server.connection_string.replace("SAS_KEY_VALUE", "wrong-key-of-a-client")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ServiceBusError),
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
    (line,) = [x for x in lines(server, "partibus.refused") if "signature" in x["message"]]
    assert line["message"].startswith("token refused: ")
    assert line["condition"] == "amqp:unauthorized-access"
    assert line["tracking_id"]
    assert line["peer"].startswith("127.0.0.1:")
    assert "wrong-key-of-a-client" not in server.log_text()


def test_a_refused_link_is_in_the_log(server: ServerProcess, client: ServiceBusClient) -> None:
    with (
        pytest.raises(ServiceBusError) as raised,
        client.get_queue_sender("nobody-made-this") as sender,
    ):
        sender.send_messages(ServiceBusMessage("x"))
    tracking = TRACKING.search(str(raised.value))
    assert tracking is not None
    shown = [x for x in lines(server, "partibus.refused") if x["tracking_id"] == tracking[1]]
    assert [line["condition"] for line in shown] == ["amqp:not-found"]


def test_a_dropped_link_is_in_the_log(server: ServerProcess, client: ServiceBusClient) -> None:
    admin = JsonAdmin(server)
    admin.create("doomed")
    with client.get_queue_receiver("doomed") as receiver:
        assert not receiver.receive_messages(max_wait_time=1)
        admin.delete("doomed")
        wait_until(
            lambda: any(
                x["message"].startswith("link dropped: ") for x in lines(server, "partibus.refused")
            ),
            "the dropped link is in the log",
        )


def test_changes_are_audited(server: ServerProcess) -> None:
    admin, offset = JsonAdmin(server), len(audit(server))
    admin.create("audited-1")
    with pytest.raises(Refused):
        admin.create("audited-1")
    assert (
        HttpBus(server.ready.http_port).ask("DELETE", "/audited-1?api-version=2021-05").status
        == 200
    )
    made, refused, deleted = audit(server)[offset:]
    assert made["what"] == "POST /$partibus/entities audited-1"
    assert (made["who"], made["outcome"]) == ("RootManageSharedAccessKey", "done")
    assert made["where"] == "127.0.0.1"
    assert refused["outcome"] == "refused"
    assert refused["tracking_id"]
    assert (deleted["what"], deleted["outcome"]) == ("DELETE audited-1", "done")


@pytest.mark.parametrize("key", ["primary_key", "secondary_key"])
def test_keys_are_never_audited(server: ServerProcess, key: str) -> None:
    body = {"rights": ["Send"], key: "a-key-that-nobody-may-read-0123456789="}
    JsonAdmin(server).ask("PUT", "/policies/audited", body)
    JsonAdmin(server).delete_policy("audited")
    assert "nobody-may-read" not in str(audit(server)) + server.log_text()
    assert any("/policies/audited" in line["what"] for line in audit(server))


def test_the_level_changes_while_it_runs(server: ServerProcess) -> None:
    admin = JsonAdmin(server)
    assert admin.ask("GET", "/log")["level"] == "info"
    assert admin.ask("PUT", "/log", {"level": "error"})["level"] == "error"
    before = len(lines(server, "partibus.refused"))
    with pytest.raises(Refused):
        admin.ask("GET", "/stores", token="nonsense")
    assert admin.ask("PUT", "/log", {"level": "info"})["workers"] == [
        {"worker": 0, "level": "info"}
    ]
    assert len(lines(server, "partibus.refused")) == before
    with pytest.raises(Refused):
        admin.ask("GET", "/stores", token="nonsense")
    assert len(lines(server, "partibus.refused")) == before + 1
    with pytest.raises(Refused) as refused:
        admin.ask("PUT", "/log", {"level": "loud"})
    assert refused.value.status == 400


def test_a_new_root_key_is_on_stdout_alone(tmp_path: Path) -> None:
    config = tmp_path / "none.toml"
    config.write_text("", encoding="utf-8")
    server = ServerProcess(tmp_path, config, "--log-level", "debug", "--host", "0.0.0.0")
    server.needs_key = False
    with server:
        key = server.connection_string.partition("SharedAccessKey=")[2].partition(";")[0]
        with (
            ServiceBusClient.from_connection_string(server.connection_string) as client,
            pytest.raises(ServiceBusError),
        ):
            client.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
        assert len(key) > 20
        assert key not in server.log_text()
