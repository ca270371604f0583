"""Messages as the console shows and handles them: peek, dead letters by reason, send, resubmit.

Owns the forms of these requests and the size of one answer. Everything is done over an internal
connection with the user's own token, by the same code as the command line, so that nobody can do
here what they could not do as a client. Called by `ops.admin.messages`.
"""

import base64
import dataclasses
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from partibus.client.bus import Bus
from partibus.client.errors import RemoteError
from partibus.client.message import IncomingMessage
from partibus.client.messages.json_form import message_from_json, message_to_json
from partibus.client.messages.pacing import Pacer
from partibus.client.messages.peeking import Walk
from partibus.client.messages.reasons import Reasons, reason_of
from partibus.client.messages.resubmission import Resubmission
from partibus.cluster.control_hub import Payload
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityDisabled,
    EntityNotFound,
    InvalidOperation,
    MessageNotFound,
    QuotaExceeded,
    ServerBusy,
    SessionCannotBeLocked,
    Unauthorized,
)
from partibus.domain.quantities import moment_ms
from partibus.domain.sequence import fragment_of
from partibus.gateway.gateway import Gateway
from partibus.server.operators.internal_connection import internal_bus

SUBQUEUES: Final = {
    "active": "",
    "dead-letter": "/$DeadLetterQueue",
    "transfer-dead-letter": "/$Transfer/$DeadLetterQueue",
}
PAGE_MAX: Final = 200
SEARCHED_MAX: Final = 5_000
"""Messages that one request visits: it answers soon, and the next one continues after them."""
SEARCHED_S_MAX: Final = 0.12
"""Time limit for that, so that a page takes 200 ms on a busy server too."""
BODY_SHOWN_CHARACTERS: Final = 400
"""The part of a body shown in a list; a single message is shown with all of it."""
BODY_SHOWN_BYTES_MAX: Final = 1 << 20
RESUBMITTED_MAX: Final = 1_000
"""Dead letters that one request handles, so that progress is visible and no request takes long."""
SESSIONS_MAX: Final = 500
STEP: Final = 100
SKIP: Final = "skip-"
SKIPPED_MAX: Final = 100_000
NUMBER_DIGITS_MAX: Final = 19
LOCK_WAIT_MS: Final = 1_000


class MessageService:
    """What the holder of a token does with the messages of an entity."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def page_request(self, **fields: Any) -> "PageRequest":
        """Which messages a page should contain, from the parameters of a request."""
        start = str(fields.pop("start", "0"))
        number = start.removeprefix(SKIP)
        if not number.isascii() or not number.isdigit() or len(number) > NUMBER_DIGITS_MAX:
            raise ArgumentError("'from' must be a sequence number, or the 'next' of a page.")
        fields["skip" if start.startswith(SKIP) else "start"] = int(number)
        return PageRequest(**fields)

    @asynccontextmanager
    async def _bus(self, token: str | None) -> AsyncIterator[Bus]:
        if not token:
            raise Unauthorized("A token is needed in the Authorization header.")
        try:
            async with internal_bus(self._gateway, token) as bus:
                yield bus
        except RemoteError as error:
            raise _bus_error(error) from error

    # --- looking ------------------------------------------------------------------------------

    async def peek(self, token: str | None, name: str, page: "PageRequest") -> Payload:
        """A page of messages, without receiving any; `next` is where the following page begins."""
        found: list[Payload] = []
        seen = 0
        async with self._bus(token) as bus:
            walk = Walk(await bus.management(_path(name, page.subqueue)), page.start, page.session)
            await _pass_over(walk, page.skip)
            begun_s = time.monotonic()
            while not seen or (_goes_on(seen, begun_s) and len(found) < page.count):
                most = min(page.count - len(found), STEP) if page.is_plain else STEP
                messages = await walk.step(most)
                if not messages:
                    return {"messages": found, "next": None, "searched": seen}
                for message in messages:
                    seen += 1
                    if not page.is_like(message):
                        continue
                    shown = _numbered(message)
                    if page.accepts(shown):
                        found.append(_shortened(shown))
                        if len(found) == page.count:
                            break
        return {"messages": found, "next": page.after(message, seen), "searched": seen}

    async def show(self, token: str | None, name: str, subqueue: str, number: int) -> Payload:
        """One message with all of its body, up to a limit."""
        async with self._bus(token) as bus:
            management = await bus.management(_path(name, subqueue))
            for message in await management.peek(number, 1):
                if message.sequence_number == number:
                    return _whole(message)
        raise EntityNotFound(f"'{name}' no longer has a message {number}.")

    async def reasons(self, token: str | None, name: str) -> Payload:
        """The dead letters grouped by reason."""
        reasons = Reasons()
        searched = 0
        async with self._bus(token) as bus:
            walk = Walk(await bus.management(_path(name, "dead-letter")))
            while searched < 10 * SEARCHED_MAX and (messages := await walk.step(250)):
                searched += len(messages)
                for message in messages:
                    reasons.add(message)
        return {"name": name, "reasons": reasons.rows(), "searched": searched}

    async def sessions(self, token: str | None, name: str) -> Payload:
        """The sessions of an entity that hold messages or state."""
        async with self._bus(token) as bus:
            ids = await (await bus.management(name)).sessions()
        shown = [{"session_id": session_id} for session_id in ids[:SESSIONS_MAX]]
        return {"name": name, "sessions": shown, "count": len(ids)}

    async def session_state(self, token: str | None, name: str, session_id: str) -> Payload:
        """The state of a session, which is read under its lock as any client does (SES-16)."""
        async with (
            self._bus(token) as bus,
            bus.holding(name, session_id, LOCK_WAIT_MS) as management,
        ):
            state = await management.session_state(session_id)
        return {"name": name, "session_id": session_id, **_state(state)}

    # --- doing ----------------------------------------------------------------------------------

    async def send(self, token: str | None, name: str, fields: Payload) -> Payload:
        """Send a message, or schedule it when it has a time."""
        message = message_from_json(fields, "the message")
        async with self._bus(token) as bus:
            if message.scheduled_ms is not None:
                numbers = await (await bus.management(name)).schedule([message])
                return {"name": name, "scheduled": numbers[0]}
            sender = await bus.sender(name)
            await sender.post(message.encode())
            await sender.confirmed()
        return {"name": name, "sent": 1}

    async def resubmit(self, token: str | None, name: str, body: Payload) -> Payload:
        """Send dead letters again, or delete them; returns how many were requested and how many are
        done."""
        work = _work(name, body)
        async with self._bus(token) as bus:
            found = await work.choose(bus)
            if found and not body.get("dry_run", False):
                await work.run(bus, Pacer(None), lambda _done: None)
        return {
            "name": name,
            "to": None if work.is_discarded else work.destination,
            "found": found,
            "done": work.done,
        }

    async def cancel(self, token: str | None, name: str, numbers: list[int]) -> Payload:
        """Cancel scheduled messages."""
        async with self._bus(token) as bus:
            await (await bus.management(name)).cancel(numbers)
        return {"name": name, "cancelled": len(numbers)}

    async def delete_deferred(self, token: str | None, name: str, numbers: list[int]) -> Payload:
        """Delete deferred messages by their numbers."""
        deleted = 0
        async with self._bus(token) as bus:
            management = await bus.management(name)
            for number in numbers:
                deleted += await management.delete_deferred([number])
        return {"name": name, "deleted": deleted}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which messages a page should contain."""

    subqueue: str = "active"
    start: int = 0
    skip: int = 0
    count: int = 50
    state: str | None = None
    session: str | None = None
    reason: str | None = None
    search: str | None = None
    since: str | None = None
    until: str | None = None
    """Enqueued from this time on, and before that one."""

    def __post_init__(self) -> None:
        if self.subqueue not in SUBQUEUES:
            raise ArgumentError(
                f"'{self.subqueue}' is not a subqueue; allowed: {', '.join(SUBQUEUES)}."
            )
        if self.skip > SKIPPED_MAX:
            raise ArgumentError(
                f"A list covers at most the last {SKIPPED_MAX} messages; search for one instead."
            )
        if not 1 <= self.count <= PAGE_MAX:
            raise ArgumentError(f"'max' is {self.count}; allowed: 1 to {PAGE_MAX}.")

    def after(self, last: IncomingMessage, seen: int) -> str:
        """Where the next page begins: after a number; or after a count of messages, where the
        fragments of an entity are merged by time and no number says how far each was shown."""
        if self.skip or fragment_of(last.sequence_number):
            return f"{SKIP}{self.skip + seen}"
        return str(last.sequence_number + 1)

    @property
    def is_plain(self) -> bool:
        """Whether there is no filter."""
        parts = (self.state, self.search, self.reason, self.since, self.until)
        return all(part is None for part in parts)

    def is_like(self, message: IncomingMessage) -> bool:
        """Whether its state, reason and time match; checked before the rest."""
        if self.state is not None and message.state != self.state:
            return False
        if self.reason is not None and reason_of(message) != self.reason:
            return False
        at_ms = message.enqueued_ms or 0
        if self.since is not None and at_ms < moment_ms(self.since):
            return False
        return self.until is None or at_ms < moment_ms(self.until)

    def accepts(self, shown: Payload) -> bool:
        """Whether a message of the right state matches the rest of the filter."""
        return self.search is None or any(
            self.search.lower() in text.lower() for text in _texts(shown)
        )


def _goes_on(seen: int, begun_s: float) -> bool:
    """Whether one request may visit more messages."""
    return seen < SEARCHED_MAX and time.monotonic() - begun_s < SEARCHED_S_MAX


async def _pass_over(walk: Walk, count: int) -> None:
    while count > 0 and (passed := await walk.step(min(count, 250))):
        count -= len(passed)


def _texts(value: object) -> Iterable[str]:
    """The searchable texts of a message."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif value is not None:
        yield str(value)


def _path(name: str, subqueue: str) -> str:
    if subqueue not in SUBQUEUES:
        raise ArgumentError(f"'{subqueue}' is not a subqueue; allowed: {', '.join(SUBQUEUES)}.")
    return name + SUBQUEUES[subqueue]


def _shortened(shown: Payload) -> Payload:
    body = shown.get("body")
    if body is not None and not isinstance(body, str):
        body = str(body)
    if body is None and "body_base64" in shown:
        size = len(shown["body_base64"]) * 3 // 4
        return {**_without(shown, "body_base64"), "body_bytes": size, "body_is_binary": True}
    if body is None:
        return shown
    short = body[:BODY_SHOWN_CHARACTERS]
    return {**shown, "body": short, "body_bytes": len(body.encode("utf-8", "surrogatepass"))}


def _numbered(message: IncomingMessage) -> Payload:
    """A message with its number as text too, which is beyond JavaScript's integers."""
    return {"id": str(message.sequence_number), **message_to_json(message)}


def _without(shown: Payload, name: str) -> Payload:
    return {key: value for key, value in shown.items() if key != name}


def _whole(message: IncomingMessage) -> Payload:
    shown = _numbered(message)
    body_type, body = message.body()
    raw = body if isinstance(body, bytes) else str(shown.get("body", "")).encode()
    cut = raw[:BODY_SHOWN_BYTES_MAX]
    annotations = {name: str(value) for name, value in message.annotations.items()}
    return {
        **_without(shown, "body_base64"),
        "body_type": body_type,
        "body_bytes": len(raw),
        "body_is_cut": len(cut) < len(raw),
        "body_base64": base64.b64encode(cut).decode(),
        "annotations": annotations,
    }


def _state(state: bytes | None) -> Payload:
    if state is None:
        return {"state_bytes": None}
    cut = state[:BODY_SHOWN_BYTES_MAX]
    return {"state_bytes": len(state), "state_base64": base64.b64encode(cut).decode()}


def _work(name: str, body: Payload) -> Resubmission:
    unknown = set(body) - {"to", "reason", "max", "new_id", "numbers", "edit", "discard", "dry_run"}
    if unknown:
        raise ArgumentError(f"'{min(unknown)}' is not a field of a resubmission.")
    numbers, edit = body.get("numbers"), body.get("edit")
    most = body.get("max", RESUBMITTED_MAX)
    if not isinstance(most, int) or not 1 <= most <= RESUBMITTED_MAX:
        raise ArgumentError(f"'max' must be 1 to {RESUBMITTED_MAX}.")
    if edit is not None and (not isinstance(numbers, list) or len(numbers) != 1):
        raise ArgumentError("An edit needs 'numbers' with exactly one message.")
    work = Resubmission(
        dead_letters=_path(name, "dead-letter"),
        destination=body.get("to") or _home(name),
        reason=body.get("reason"),
        most=None if body.get("dry_run") else most,
        new_id=bool(body.get("new_id", False)),
        numbers=None if numbers is None else frozenset(map(int, numbers)),
        is_discarded=bool(body.get("discard", False)),
    )
    if edit is not None:
        encoded = message_from_json(edit, "the edited message").encode()
        work.edited = lambda _message: encoded
    return work


def _home(name: str) -> str:
    """Where a dead letter came from: the queue, or the topic of the subscription."""
    topic, found, _ = name.lower().partition("/subscriptions/")
    return name[: len(topic)] if found else name


_TOLD: Final = (
    EntityNotFound,
    EntityDisabled,
    MessageNotFound,
    Unauthorized,
    QuotaExceeded,
    ServerBusy,
    SessionCannotBeLocked,
)
_ERRORS: Final[dict[str, type[BusError]]] = {error.condition: error for error in _TOLD}


def _bus_error(error: RemoteError) -> BusError:
    """The gateway's error for its client, as an error of this interface."""
    text = error.description or str(error)
    return _ERRORS.get(error.condition, InvalidOperation)(text.partition(" TrackingId:")[0])
