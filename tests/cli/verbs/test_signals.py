"""`partibus events`, `top` and `log`: what happens, how much, and how much of it is written."""

import json
import subprocess
import sys

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from cli.command import Partibus
from cli.verbs.conftest import MakeQueue
from support.server import ServerProcess, environment


def test_events_stop_after_a_count(bus: ServerProcess, make_queue: MakeQueue) -> None:
    command = [sys.executable, "-m", "partibus", "events", "--kind", "entity-changed"]
    command += ["--count", "1", "--json", "--connection-string", bus.connection_string]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as reader:
        # The stream begins at a moment that nobody else knows: change until it has seen one.
        wait_until(lambda: bool(make_queue()) and reader.poll() is not None, "an event was printed")
        out, _ = reader.communicate()
    assert reader.returncode == 0
    (event,) = map(json.loads, out.splitlines())
    assert event["kind"] == "entity-changed"
    assert event["change"] == "created"


def test_top_once(partibus: Partibus, client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    seen = partibus("top", "--once", "--json", "--interval", "10ms").json
    (shown,) = [entity for entity in seen["entities"] if entity["name"] == queue]
    assert shown["active"] == 2
    assert seen["workers_up"] == seen["workers"] == 1
    text = partibus("top", "--once", "--interval", "10ms").out
    assert text.startswith("workers 1/1  stores ")
    assert "\x1b" not in text


def test_the_level_of_the_log(partibus: Partibus) -> None:
    assert partibus("log", "level").out == "worker 0: info\n"
    assert partibus("log", "level", "debug").out == "worker 0: debug\n"
    assert partibus("log", "level", "info", "--json").json["level"] == "info"
    wrong = partibus.try_("log", "level", "loud")
    assert wrong.code == 2
    assert "debug, info, warning, error" in wrong.err
