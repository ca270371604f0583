"""Data of every earlier format is opened, is all there, and is written on."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from cli.command import Partibus
from support.archives import unpack
from support.server import ServerProcess
from upgrade.contents import (
    LOOKS_AT_ONCE,
    SESSIONS,
    entities,
    namespace,
    picture,
    receiver_of,
)

pytestmark = pytest.mark.timeout(900)
FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))


class Upgraded:
    """The present release on a fixture."""

    def __init__(self, name: str, place: Path) -> None:
        facts = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
        self.level: int = facts["level"]
        self.holds: dict[str, Any] = facts["holds"]
        config = place / "namespace.toml"
        config.write_text(namespace(self.level), encoding="utf-8")
        self.server = ServerProcess(place, config, "--stores", "2")
        unpack(FIXTURES / f"{name}.tar.xz", self.server.data)

    def picture(self) -> dict[str, Any]:
        return picture(self.server.connection_string, self.level)


@pytest.fixture(params=NAMES)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgraded]:
    made = Upgraded(request.param, tmp_path)
    made.server.start()
    yield made
    made.server.sigkill()


def receive(client: ServiceBusClient, name: str, count: int, **options: Any) -> list[str]:
    """So many messages; whether there are more shows when everything is looked at again."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    got: list[str] = []
    if count:
        with receiver_of(client, name, receive_mode=mode, **options) as receiver:
            while len(got) < count:
                some = receiver.receive_messages(count - len(got), max_wait_time=30)
                assert some, f"{len(got)} of {count} messages came from {name}"
                got += [str(message) for message in some]
    return sorted(got)


def active(shown: list[list[Any]]) -> list[str]:
    """The bodies that a receiver is given: neither deferred nor scheduled."""
    waits = ("defer", "scheduled")
    return sorted(body for _, body, _ in shown if not body.endswith(waits))


def receive_everything(client: ServiceBusClient, upgraded: Upgraded) -> None:
    """All at once: the stock client takes up to a second to close a receiver."""
    holds = upgraded.holds
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        taken = {}
        for name in entities(upgraded.level):
            for key, options in ((name, {}), (f"{name}/dead", {"sub_queue": "deadletter"})):
                count = len(active(holds[key]))
                taken[key] = pool.submit(receive, client, name, count, **options)
        for session in ("a", "b") if upgraded.level >= SESSIONS else ():
            key = f"session {session}"
            count = len(active(holds[key]))
            taken[key] = pool.submit(receive, client, "sessions", count, session_id=session)
        got = {key: some.result() for key, some in taken.items()}
    assert got == {key: active(holds[key]) for key in taken}


def test_everything_is_there_and_is_written_on(upgraded: Upgraded) -> None:
    server = upgraded.server
    assert upgraded.picture() == upgraded.holds
    server.restart()
    assert upgraded.picture() == upgraded.holds, "after the first start of this release"
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        receive_everything(client, upgraded)
        deferred = [n for n, body, _ in upgraded.holds["plain"] if body.endswith("defer")]
        with client.get_queue_receiver("plain") as receiver:
            for message in receiver.receive_deferred_messages(deferred):
                receiver.complete_message(message)
        with client.get_queue_sender("plain") as sender:
            sender.send_messages(ServiceBusMessage("new"))
    assert server.stop() == 0
    check = Partibus(None)("store", "check", "--data", str(server.data), "--json").json
    assert [part["problems"] for part in check["parts"]] == [[], [], []]
    server.start()
    shown = upgraded.picture().items()
    left = {name: [one[1] for one in some] for name, some in shown if some and "state" not in name}
    assert left == {"plain": ["first scheduled", "second scheduled", "new"]}
