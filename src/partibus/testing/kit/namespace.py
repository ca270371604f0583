"""A namespace of a server for tests, as a test uses it.

Owns the handle: the connection string for the program under test, entities, messages, clock and
faults of this namespace only. It works the same whether the server runs in this process, in another
one, or in a container.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Self
from urllib.parse import quote

from partibus.client.connection_string import ConnectionString
from partibus.client.message import OutgoingMessage
from partibus.testing.kit.control import BusRefused, Control
from partibus.testing.kit.durations import Duration, milliseconds
from partibus.testing.kit.expectations import Expectation, complaint, expected
from partibus.testing.kit.fake_clock import FakeClock
from partibus.testing.kit.fault_injection import Faults
from partibus.testing.kit.messages import DEAD_LETTER_PATH, Message, peek_all, send_all

POLL_S: Final = 0.02
_NOT_FOUND: Final = 404


class Namespace:
    """Entities, messages, time and faults that no other test sees."""

    def __init__(
        self, connection: ConnectionString, *, owner: Control | None = None, ca_file: str | None
    ) -> None:
        self._connection = connection
        self._control = Control(connection, ca_file)
        self._owner = owner
        """What can delete it; None for the server's own namespace."""
        self.ca_file = ca_file
        self.clock = FakeClock(self._control)
        self.faults = Faults(self._control)

    # --- where it is --------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its name, which is that of its key."""
        return self._connection.policy

    @property
    def connection_string(self) -> str:
        """The connection string for the program under test; for data and administration clients."""
        return self._connection.text()

    @property
    def http_url(self) -> str:
        """Its HTTP address."""
        return self._control.url

    # --- entities -----------------------------------------------------------------------------

    def create_queue(self, name: str, **properties: object) -> str:
        """A queue with properties as in a definitions file: `lock_duration="PT30S"` and so on.

        Returns its name.
        """
        return self._create("queue", name, properties)

    def create_topic(self, name: str, **properties: object) -> str:
        """A topic; returns its name."""
        return self._create("topic", name, properties)

    def create_subscription(self, topic: str, name: str, **properties: object) -> str:
        """A subscription, which gets every message unless it has rules; returns its path."""
        return self._create("subscription", f"{topic}/subscriptions/{name}", properties)

    def delete_entity(self, path: str) -> None:
        """Delete an entity with its messages."""
        self._control.ask("DELETE", f"/entities/{path}")

    def entities(self) -> list[str]:
        """The paths of all entities."""
        return [entity["name"] for entity in self._control.ask("GET", "/entities")["entities"]]

    def has(self, path: str) -> bool:
        """Whether there is such an entity."""
        try:
            self._control.ask("GET", f"/entities/{path}")
        except BusRefused as refused:
            if refused.status == _NOT_FOUND:
                return False
            raise
        return True

    def counts(self, path: str) -> dict[str, int]:
        """How many messages an entity has: active, dead_letter, scheduled, deferred, ..."""
        totals: dict[str, int] = self._control.ask("GET", f"/entities/{path}")["totals"]
        return totals

    def _create(self, kind: str, name: str, properties: dict[str, object]) -> str:
        body: dict[str, Any] = {"name": name, "kind": kind, "properties": properties}
        return str(self._control.ask("POST", "/entities", body)["name"])

    # --- messages -----------------------------------------------------------------------------

    def send(
        self,
        path: str,
        *bodies: str | bytes,
        message_id: str | None = None,
        session_id: str | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        properties: dict[str, object] | None = None,
        time_to_live: Duration | None = None,
    ) -> None:
        """Put messages into a queue or topic, without an SDK: initial data of a test."""
        life_ms = None if time_to_live is None else milliseconds(time_to_live)
        messages = [
            OutgoingMessage(
                body=body.encode() if isinstance(body, str) else body,
                message_id=message_id,
                session_id=session_id,
                subject=subject,
                correlation_id=correlation_id,
                properties=dict(properties or {}),
                time_to_live_ms=life_ms,
            )
            for body in bodies
        ]
        send_all(self._connection, path, self.ca_file, messages)

    def messages(self, path: str) -> list[Message]:
        """All messages of an entity, by peeking."""
        return peek_all(self._connection, path, self.ca_file)

    def dead_letters(self, path: str) -> list[Message]:
        """All messages of its dead-letter queue."""
        return self.messages(f"{path}/{DEAD_LETTER_PATH}")

    def assert_messages(
        self,
        path: str,
        wanted: Sequence[Expectation],
        *,
        state: str = "active",
        in_any_order: bool = False,
        within: float = 0.0,
    ) -> None:
        """An entity has exactly these messages, including locked ones.

        If the program needs time to send, `within` is how many seconds to wait.
        """
        self._assert(path, path, wanted, state, in_any_order, within)

    def assert_dead_letters(
        self,
        path: str,
        wanted: Sequence[Expectation],
        *,
        in_any_order: bool = False,
        within: float = 0.0,
    ) -> None:
        """Its dead-letter queue has exactly these; `expect(dead_letter_reason=...)`."""
        where = f"{path}/{DEAD_LETTER_PATH}"
        self._assert(f"dead letters of {path}", where, wanted, "active", in_any_order, within)

    def assert_empty(self, path: str) -> None:
        """An entity has no messages in any state, and none in its dead-letter queue."""
        found = self.messages(path)
        report = complaint(path, (), found, False)
        assert report is None, report
        self.assert_dead_letters(path, ())

    def _assert(
        self,
        where: str,
        path: str,
        wanted: Sequence[Expectation],
        state: str,
        in_any_order: bool,
        within: float,
    ) -> None:
        __tracebackhide__ = True
        wants = [expected(one) for one in wanted]
        ends_at = time.monotonic() + within
        while True:
            found = [message for message in self.messages(path) if message.state == state]
            report = complaint(where, wants, found, in_any_order)
            if report is None or time.monotonic() >= ends_at:
                break
            time.sleep(POLL_S)
        if report is not None:
            raise AssertionError(report)

    # --- its life -------------------------------------------------------------------------------

    def reset(self) -> None:
        """Only the entities of the server's file, no messages, no faults."""
        self._control.ask("POST", "/reset")

    def delete(self) -> None:
        """Delete the namespace with its contents; the server's own is emptied."""
        if self._owner is None:
            self.reset()
        else:
            self._owner.ask("DELETE", f"/namespaces/{quote(self.name)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.delete()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.delete()


def new_namespace(control: Control, name: str | None) -> Namespace:
    """An additional namespace, with only what the server's file declares."""
    made = control.ask("POST", "/namespaces", {} if name is None else {"name": name})
    connection = replace(control.connection, policy=made["key_name"], key=made["key"])
    return Namespace(connection, owner=control, ca_file=control.ca_file)
