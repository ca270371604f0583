"""The operations of the table over AMQP, by Qpid Proton: over TCP or through a tunnel.

Each operation is a function of an `AmqpHolder`; what it raises tells why it was refused. The
messages that it works on were put there by `Props`. Import it only where the group "proton" is
present.
"""

import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from proton import ConnectionException, Link, Message, int32, symbol, timestamp
from proton.reactor import Filter, LinkOption
from proton.utils import BlockingReceiver

from conformance.access.holders import LISTEN, SEND
from conformance.access.stage import SESSION, Stage
from conformance.settlement.management import Management, Reply, longs
from partibus.gateway.management import OPERATIONS as OFFERED
from support.proton.client import LOCK_TOKEN, SEQUENCE_NUMBER, Client

ALLOWED: Final = "allowed"
SCHEDULED_TIME: Final = symbol("x-opt-scheduled-enqueue-time")
_CONDITION: Final = re.compile(r"(?:amqp|com\.microsoft):[a-z:-]+")


class Refused(Exception):
    """A management node answered with an error."""


@dataclass
class Props:
    """What the root policy has prepared on the stage."""

    locked: list[uuid.UUID]
    deferred: int
    scheduled: int
    links: list[object] = field(default_factory=list)
    """Kept open: the locks are held through them."""


@dataclass
class AmqpHolder:
    """A connection of one holder."""

    client: Client
    stage: Stage
    props: Props

    def ask(self, entity: str, operation: str, fields: dict[str, object]) -> Reply:
        reply = Management(self.client, entity).ask(operation, fields)
        if reply.status >= 300:
            raise Refused(f"{reply.status} {reply.condition}")
        return reply


def _in(milliseconds: int) -> timestamp:
    return timestamp(int(time.time() * 1000) + milliseconds)


def prepare(root: Client, stage: Stage) -> Props:
    """A message in every state."""
    due = Message(body="later", annotations={SCHEDULED_TIME: _in(3_600_000)})
    sender = root.sender(stage.queue)
    for body in ("locked", "locked too", "deferred", "dead", "ready", "ready too", "ready still"):
        sender.send(Message(body=body))
    sender.send(due)
    sender.close()
    sender = root.sender(stage.sessions)
    sender.send(Message(body="in a session", group_id=SESSION))
    sender.close()
    receiver = root.receiver(stage.queue, credit=4)
    messages = [message for message, _ in receiver.wait_for(4)]
    tokens = [message.instructions[LOCK_TOKEN] for message in messages]
    node = Management(root, stage.queue)
    assert node.settle("defered", tokens[2]).status == 200
    assert node.settle("suspended", tokens[3]).status == 200
    later = [m for m in node.peek(10).messages() if m.body == "later"]
    return Props(
        tokens[:2],
        int(messages[2].annotations[SEQUENCE_NUMBER]),
        int(later[0].annotations[SEQUENCE_NUMBER]),
        [receiver],
    )


# --- operations ---------------------------------------------------------------------------


def _send(holder: AmqpHolder) -> None:
    holder.client.send(holder.stage.queue, "sent")


def _receive(holder: AmqpHolder) -> None:
    receiver = holder.client.receiver(holder.stage.queue, credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    receiver.settle(delivery, delivery.RELEASED)
    receiver.close()


def _receive_dead_letter(holder: AmqpHolder) -> None:
    receiver = holder.client.receiver(f"{holder.stage.queue}/$DeadLetterQueue", credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    receiver.settle(delivery, delivery.RELEASED)
    receiver.close()


def _peek(holder: AmqpHolder) -> None:
    fields = {"from-sequence-number": 0, "message-count": int32(1)}
    assert holder.ask(holder.stage.queue, "peek-message", fields).messages()


def _renew(holder: AmqpHolder) -> None:
    node = Management(holder.client, holder.stage.queue)
    _check(node.renew(holder.props.locked[0]))


def _settle(holder: AmqpHolder) -> None:
    node = Management(holder.client, holder.stage.queue)
    _check(node.settle("completed", holder.props.locked[1]))


def _receive_deferred(holder: AmqpHolder) -> None:
    node = Management(holder.client, holder.stage.queue)
    _check(node.receive_deferred(holder.props.deferred))


def _schedule(holder: AmqpHolder) -> None:
    message = Message(
        id="scheduled", body="later", annotations={SCHEDULED_TIME: _in(3_600_000)}
    ).encode()
    fields: dict[str, object] = {"messages": [{"message-id": "scheduled", "message": message}]}
    holder.ask(holder.stage.queue, "schedule-message", fields)


def _cancel(holder: AmqpHolder) -> None:
    fields: dict[str, object] = {"sequence-numbers": longs([holder.props.scheduled])}
    holder.ask(holder.stage.queue, "cancel-scheduled-message", fields)


def _delete_batch(holder: AmqpHolder) -> None:
    fields = {"message-count": int32(1), "enqueued-time-utc": _in(1000)}
    holder.ask(holder.stage.queue, "batch-delete-messages", fields)


def _list_sessions(holder: AmqpHolder) -> None:
    fields = {"last-updated-time": timestamp(0), "skip": int32(0), "top": int32(10)}
    holder.ask(holder.stage.sessions, "get-message-sessions", fields)


class _SessionFilter(Filter):
    def __init__(self) -> None:
        super().__init__({symbol("com.microsoft:session-filter"): SESSION})

    def apply(self, link: Link) -> None:
        super().apply(link)
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


def _accept_session(holder: AmqpHolder) -> BlockingReceiver:
    option: LinkOption = _SessionFilter()
    return holder.client.receiver(holder.stage.sessions, option=option)


def _of_session(operation: str, **fields: object) -> Callable[[AmqpHolder], None]:
    """An operation on a session that is held, if it may be."""

    def ask(holder: AmqpHolder) -> None:
        try:
            held = _accept_session(holder)
        except Exception:
            held = None  # the operation itself must be refused, too
        try:
            holder.ask(holder.stage.sessions, operation, {"session-id": SESSION, **fields})
        finally:
            if held is not None:
                held.close()

    return ask


def _accept(holder: AmqpHolder) -> None:
    _accept_session(holder).close()


def _add_rule(holder: AmqpHolder) -> None:
    description: dict[str, object] = {"sql-filter": {"expression": "1 = 1"}}
    fields: dict[str, object] = {"rule-name": "added", "rule-description": description}
    holder.ask(holder.stage.subscription, "add-rule", fields)


def _list_rules(holder: AmqpHolder) -> None:
    fields: dict[str, object] = {"top": int32(10), "skip": int32(0)}
    holder.ask(holder.stage.subscription, "enumerate-rules", fields)


def _remove_rule(holder: AmqpHolder) -> None:
    holder.ask(holder.stage.subscription, "remove-rule", {"rule-name": "$Default"})


def _check(reply: Reply) -> None:
    if reply.status >= 300:
        raise Refused(f"{reply.status} {reply.condition}")


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done, the right that it needs (SAS-8), and its name at the management node."""

    do: Callable[[AmqpHolder], None]
    right: str
    managed: str | None = None


_TABLE: Final = {
    "send": Operation(_send, SEND),
    "receive": Operation(_receive, LISTEN),
    "receive a dead letter": Operation(_receive_dead_letter, LISTEN),
    "peek": Operation(_peek, LISTEN, "peek-message"),
    "renew a lock": Operation(_renew, LISTEN, "renew-lock"),
    "settle": Operation(_settle, LISTEN, "update-disposition"),
    "receive a deferred message": Operation(
        _receive_deferred, LISTEN, "receive-by-sequence-number"
    ),
    "schedule": Operation(_schedule, SEND, "schedule-message"),
    "cancel a scheduled message": Operation(_cancel, SEND, "cancel-scheduled-message"),
    "delete a batch": Operation(_delete_batch, LISTEN, "batch-delete-messages"),
    "list sessions": Operation(_list_sessions, LISTEN, "get-message-sessions"),
    "accept a session": Operation(_accept, LISTEN),
    "get a session's state": Operation(
        _of_session("get-session-state"), LISTEN, "get-session-state"
    ),
    "set a session's state": Operation(
        _of_session("set-session-state", **{"session-state": b"x"}), LISTEN, "set-session-state"
    ),
    "renew a session's lock": Operation(
        _of_session("renew-session-lock"), LISTEN, "renew-session-lock"
    ),
    # Over AMQP whoever listens to a subscription chooses what it takes; see docs/compatibility.md.
    "add a rule": Operation(_add_rule, LISTEN, "add-rule"),
    "list rules": Operation(_list_rules, LISTEN, "enumerate-rules"),
    "remove a rule": Operation(_remove_rule, LISTEN, "remove-rule"),
}
OPERATIONS: Final[Mapping[str, Operation]] = {
    name: operation
    for name, operation in _TABLE.items()
    if operation.managed is None or operation.managed in OFFERED
}


def tried(operation: Callable[[AmqpHolder], None], holder: AmqpHolder) -> str:
    """ "allowed", or the condition of the refusal."""
    try:
        operation(holder)
    except (Refused, ConnectionException) as error:
        return condition_of(error)
    except Exception as error:
        if type(error).__module__.split(".")[0] != "proton":
            raise
        return condition_of(error)
    return ALLOWED


def condition_of(error: Exception) -> str:
    found = _CONDITION.search(str(error))
    return str(error) if found is None else found.group()


def expected(may: Callable[[str], bool]) -> dict[str, str]:
    """The column of the table for whoever has these rights."""
    return {
        name: ALLOWED if may(operation.right) else "amqp:unauthorized-access"
        for name, operation in OPERATIONS.items()
    }


def observed(holder: AmqpHolder) -> dict[str, str]:
    """What came of every operation."""
    return {name: tried(operation.do, holder) for name, operation in OPERATIONS.items()}
