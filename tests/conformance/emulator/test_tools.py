"""Tools that start the vendor's emulator, replayed: what each sets, waits for and hands on.

A container's mapped ports are free ports here. What a tool waits for is waited for in its own
way, from the moment of the start; then the stock clients use the connection string that it makes.
"""

import contextlib
import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from cli.command import Partibus
from support.javascript import scenario
from support.receiving import bodies, collect
from support.server import SOURCE

UP = "Emulator Service is Successfully Up!"
HEALTHY = {"status": "healthy", "message": "Service is healthy."}
UNHEALTHY = {
    "status": "unhealthy",
    "message": "Service not available. Please try after some time.",
}
SECONDS_MAX = 60
KEYS = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
ASPIRE_CONFIG = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "messaging",
                "Queues": [{"Name": "queue.1", "Properties": {"MaxDeliveryCount": 10}}],
                "Topics": [
                    {
                        "Name": "topic.1",
                        "Properties": {},
                        "Subscriptions": [
                            {"Name": "subscription.3", "Properties": {}, "Rules": []},
                            {
                                "Name": "red",
                                "Properties": {},
                                "Rules": [
                                    {
                                        "Name": "red",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {
                                                "Label": "red",
                                                "RequiresPreprocessing": False,
                                            },
                                        },
                                    }
                                ],
                            },
                        ],
                    }
                ],
            }
        ],
        "Logging": {"Type": "File"},
    }
}


class Container:
    """The server as a tool starts it: ports, environment, and what comes out on stdout."""

    def __init__(self, directory: Path, environment: dict[str, str], *flags: str) -> None:
        self.amqp_port, self.http_port = _free_port(), _free_port()
        self._log = directory / "server.log"
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        ports = ["--port", str(self.amqp_port), "--http-port", str(self.http_port)]
        command = [sys.executable, "-m", "partibus", "serve", "--emulator", *ports, *flags]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PARTIBUS_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--data", str(directory / "data")],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=kept | {"PYTHONPATH": str(SOURCE)} | environment,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def stop(self) -> None:
        self._process.terminate()
        assert self._process.wait(timeout=SECONDS_MAX) == 0, self.log()

    def further_lines(self) -> list[str]:
        """What was printed after the line; call it once the process has ended."""
        return list(iter(lambda: self._lines.get(timeout=SECONDS_MAX), ""))

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_for_line(self) -> None:
        """As the log strategies do: the line contains the text."""
        while UP not in (line := self._lines.get(timeout=SECONDS_MAX)):
            assert line, self.log()

    def wait_for_health(self) -> None:
        """As the HTTP strategies do: 200 ends the wait, anything else is asked again."""
        wait_until(lambda: self._health() == (200, HEALTHY), "healthy")

    def wait_for_ports(self) -> None:
        for port in (self.amqp_port, self.http_port):
            wait_until(lambda port=port: _is_open(port), "listening")

    def _health(self) -> tuple[int, object] | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=SECONDS_MAX)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", "/health")
            response = connection.getresponse()
            answer = response.status, json.loads(response.read())
            assert answer in ((200, HEALTHY), (503, UNHEALTHY))
            return answer
        return None

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put("")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _is_open(port: int, host: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((host, port), timeout=SECONDS_MAX).close()
    except OSError:
        return False
    return True


Wait = Callable[[Container], None]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What a tool sets, what it waits for, and the end of its Endpoint."""

    environment: dict[str, str]
    waits: tuple[Wait, ...]
    slash: str = ""
    config: object = None


SQL = {"ACCEPT_EULA": "Y", "SQL_SERVER": "database", "MSSQL_SA_PASSWORD": "yourStrong(!)Password"}
TOOLS = {
    "testcontainers-net": Tool(
        environment=SQL | {"SQL_WAIT_INTERVAL": "0"},
        waits=(Container.wait_for_line, Container.wait_for_health),
        slash="/",
    ),
    "testcontainers-java": Tool(environment=SQL, waits=(Container.wait_for_line,)),
    "testcontainers-go": Tool(
        environment=SQL | {"SQL_WAIT_INTERVAL": "0"},
        waits=(Container.wait_for_ports, Container.wait_for_health),
    ),
    "testcontainers-node": Tool(
        environment=SQL | {"SQL_WAIT_INTERVAL": "0"}, waits=(Container.wait_for_health,)
    ),
    "aspire": Tool(
        environment=SQL | {"SQL_SERVER": "database:1433"},
        waits=(Container.wait_for_health,),
        config=ASPIRE_CONFIG,
    ),
}


@dataclass(frozen=True)
class Started:
    """A server that its tool takes for ready, and the connection string that it makes."""

    container: Container
    string: str


@pytest.fixture(scope="module", params=TOOLS)
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    tool = TOOLS[request.param]
    directory = tmp_path_factory.mktemp(request.param)
    flags: list[str] = []
    if tool.config is not None:
        file = directory / "Config.json"
        file.write_text(json.dumps(tool.config), encoding="utf-8")
        flags = ["--config", str(file)]
    container = Container(directory, tool.environment, *flags)
    try:
        for wait in tool.waits:
            wait(container)
        endpoint = f"sb://localhost:{container.amqp_port}{tool.slash}"
        yield Started(container, f"Endpoint={endpoint};{KEYS};UseDevelopmentEmulator=true;")
    finally:
        container.stop()


@pytest.mark.rule("EMU-6", "EMU-7")
def test_the_python_client_sends_and_receives(started: Started) -> None:
    with ServiceBusClient.from_connection_string(started.string, retry_total=0) as client:
        with client.get_queue_sender("queue.1") as sender:
            sender.send_messages(ServiceBusMessage("one"))
        with client.get_queue_receiver("queue.1") as receiver:
            (message,) = collect(receiver, 1)
            receiver.complete_message(message)
            assert bodies([message]) == ["one"]
        with client.get_topic_sender("topic.1") as sender:
            sender.send_messages(ServiceBusMessage("copied"))
        with client.get_subscription_receiver("topic.1", "subscription.3") as receiver:
            (message,) = collect(receiver, 1)
            receiver.complete_message(message)
            assert bodies([message]) == ["copied"]


@pytest.mark.group("javascript")
@pytest.mark.rule("EMU-7")
@pytest.mark.parametrize("end", ["", ";EntityPath=queue.1"], ids=["namespace", "entity"])
def test_the_javascript_client_sends_and_receives(started: Started, end: str) -> None:
    given = {"connection": started.string + end, "queue": "queue.1"}
    first, marker = scenario("service-bus.mjs", "sendAndComplete", **given)
    assert (first["body"], marker["body"]) == ("first", "marker")


@pytest.mark.rule("EMU-7")
def test_the_python_client_with_an_entity_of_a_topic(started: Started) -> None:
    """It takes no empty part, so the second semicolon is left out."""
    path = "topic.1/Subscriptions/subscription.3"
    with (
        ServiceBusClient.from_connection_string(started.string, retry_total=0) as client,
        client.get_topic_sender("topic.1") as sender,
    ):
        sender.send_messages(ServiceBusMessage("for one"))
    bound = f"{started.string}EntityPath={path}"
    with (
        ServiceBusClient.from_connection_string(bound, retry_total=0) as client,
        client.get_queue_receiver(path) as receiver,
    ):
        (message,) = collect(receiver, 1)
        receiver.complete_message(message)
        assert bodies([message]) == ["for one"]


@pytest.mark.rule("EMU-7")
def test_the_command_line_takes_what_aspire_appends(started: Started) -> None:
    path = "topic.1/Subscriptions/subscription.3"
    done = Partibus(f"{started.string};EntityPath={path}").try_("doctor")
    assert (done.code, done.err) == (0, "")
    assert f"{path} can be received from" in done.out


def test_the_log_warns_of_the_published_key(started: Started) -> None:
    assert (
        "SAS_KEY_VALUE gives every right to anyone who reaches the ports" in started.container.log()
    )


def test_several_workers_say_once_that_they_are_up(tmp_path: Path) -> None:
    container = Container(tmp_path, SQL, "--memory", "--workers", "2", "--stores", "2")
    try:
        container.wait_for_line()
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            assert _is_open(container.http_port, host)
        container.wait_for_health()
    finally:
        container.stop()
    assert container.further_lines() == []


@pytest.mark.rule("EMU-11")
def test_rules_of_the_default_entities(tmp_path: Path) -> None:
    container = Container(tmp_path, SQL, "--memory")
    try:
        container.wait_for_line()
        string = f"Endpoint=sb://localhost:{container.amqp_port};{KEYS};UseDevelopmentEmulator=true"
        with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
            with client.get_topic_sender("topic.1") as sender:
                for message in _one_for_each_rule():
                    sender.send_messages(message)
            for number, expected in ((1, ["json"]), (2, ["prop"]), (4, ["sql"])):
                with client.get_subscription_receiver(
                    "topic.1", f"subscription.{number}"
                ) as receiver:
                    messages = collect(receiver, 1)
                    assert bodies(messages) == expected
                    assert number != 4 or messages[0].to == "Entity"
    finally:
        container.stop()


def _one_for_each_rule() -> list[ServiceBusMessage]:
    return [
        ServiceBusMessage(
            "sql", message_id="123456", application_properties={"userProp1": "value1"}
        ),
        ServiceBusMessage("prop", application_properties={"prop1": "value1"}),
        ServiceBusMessage("json", content_type="application/json"),
    ]


@pytest.mark.group("namespaces")
@pytest.mark.rule("EMU-6", "EMU-7", "EMU-9")
def test_fixed_ports_and_the_file_where_tools_put_it(tmp_path: Path) -> None:
    """In namespaces of its own, since both belong to the whole machine."""
    config = tmp_path / "Config.json"
    namespace = {"Name": "any", "Queues": [{"Name": "from.tool"}], "Topics": []}
    text = json.dumps({"UserConfig": {"Namespaces": [namespace]}})
    config.write_text(f"// made by a tool\n{text}", encoding="utf-8")
    root = tmp_path / "root"
    root.mkdir()
    program = Path(__file__).with_name("in_container.py")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PARTIBUS_")}
    done = subprocess.run(
        ["unshare", "-rmn", sys.executable, str(program), str(root), str(config)],
        capture_output=True,
        text=True,
        env=kept | {"PYTHONPATH": str(SOURCE)},
        timeout=2 * SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["lines"][0].startswith("PARTIBUS READY ")
    assert ":5672 http=" in seen["lines"][0]
    assert seen["lines"][1] == UP
    assert (seen["health"], seen["body"]) == ([200, HEALTHY], "hello")
