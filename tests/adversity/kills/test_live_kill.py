"""A server that is killed while entities come and go: what was answered holds afterwards.

A worker thread creates, fills and deletes queues; the server is killed after a drawn number of
its steps, so at any moment between catalog and store. After each restart a queue whose
deletion was answered is not there, one whose creation was answered is, and it has the messages
of its present life and no other.
"""

import gc
import random
import threading
from dataclasses import dataclass, field

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.conftest import NewServer
from adversity.victim import Victim
from adversity.waiting import wait_until
from support.json_admin import JsonAdmin, Refused

NAMES = ("red", "green", "blue")
STEPS_MAX = 15


@dataclass
class Life:
    """What was answered of one queue."""

    exists: bool | None = False
    """None while a creation or deletion is not answered."""
    sure: set[str] = field(default_factory=set)
    possible: set[str] = field(default_factory=set)


class Traffic:
    """Changes and sends, one after the other, until the server is gone."""

    def __init__(self, server: Victim, lives: dict[str, Life], rng: random.Random) -> None:
        self._admin = JsonAdmin(server)
        self._client = ServiceBusClient.from_connection_string(
            server.connection_string, retry_total=0
        )
        self._lives = lives
        self._rng = rng
        self.steps = threading.Semaphore(0)
        self._number = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._client.close()

    def _run(self) -> None:
        try:
            while True:
                name = self._rng.choice(NAMES)
                life = self._lives[name]
                if not life.exists:
                    self._create(name, life)
                elif self._rng.random() < 0.4:
                    self._delete(name, life)
                else:
                    self._send(name, life)
                self.steps.release()
        except Exception:
            self.steps.release(STEPS_MAX)  # the server is gone, as it should be

    def _create(self, name: str, life: Life) -> None:
        life.exists, life.sure, life.possible = None, set(), set()
        self._admin.create(name, enable_partitioning=self._rng.random() < 0.5)
        life.exists = True

    def _delete(self, name: str, life: Life) -> None:
        life.exists = None
        self._admin.delete(name)
        life.exists = False

    def _send(self, name: str, life: Life) -> None:
        self._number += 1
        bodies = [f"{id(self)}-{self._number}-{n}" for n in range(5)]
        life.possible.update(bodies)
        with self._client.get_queue_sender(name) as sender:
            sender.send_messages([ServiceBusMessage(body) for body in bodies])
        life.sure.update(bodies)


def contents(server: Victim, name: str) -> list[str] | None:
    """What a queue holds; None when it is not there."""
    try:
        count = JsonAdmin(server).get(name)["totals"]["active"]
    except Refused as refused:
        assert refused.status == 404
        return None
    client = ServiceBusClient.from_connection_string(server.connection_string, retry_total=0)
    found: list[str] = []
    with client, client.get_queue_receiver(name) as receiver:
        while page := receiver.peek_messages(max_message_count=250):
            found += [str(message) for message in page]
    assert len(found) == count
    return found


def check(server: Victim, lives: dict[str, Life]) -> None:
    for name, life in lives.items():
        found = contents(server, name)
        if life.exists is not None:
            assert (found is not None) is life.exists, name
        if found is not None:
            assert life.sure <= set(found) <= life.possible, name
            assert len(set(found)) == len(found)
        life.exists = found is not None
        life.sure = set(found or ())
        life.possible = set(life.sure)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("flags", [("--stores", "3"), ("--stores", "3", "--workers", "2")])
def test_what_was_answered_holds(new_server: NewServer, seed: int, flags: tuple[str, ...]) -> None:
    rng = random.Random(seed)
    server = new_server(None, *flags)
    lives = {name: Life() for name in NAMES}
    server.start()
    for _ in range(3):
        traffic = Traffic(server, lives, random.Random(rng.random()))
        traffic.start()
        for _ in range(rng.randrange(1, STEPS_MAX)):
            traffic.steps.acquire()
        server.sigkill()
        traffic.end()
        server.start()
        check(server, lives)
    for name, life in lives.items():
        if life.exists:
            JsonAdmin(server).delete(name)
    wait_until(
        lambda: {store["live_bytes"] for store in JsonAdmin(server).stores()} == {0},
        "nothing is stored for queues that are gone",
    )
    gc.collect()
