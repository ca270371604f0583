"""Every command and every answer comes out of its row as it went in.

The rows go through the same serialiser as between workers. A field that is added to a message
or a command and forgotten in its row fails here.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.cluster import rows
from partibus.cluster.codes import FAILED
from partibus.cluster.command_rows import DECODERS, ENCODERS
from partibus.cluster.hosting import Host, Reply
from partibus.cluster.rows import ANSWERS, Row
from partibus.domain import errors
from partibus.domain.errors import ArgumentError, BusError, EntityNotFound, StoreCorrupt
from partibus.domain.refusal import TargetNotFound
from partibus.fragment import commands
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Enqueue,
    Outcome,
    Peek,
    Purge,
    Question,
    ReceiveDeferred,
    Renew,
    Settle,
    SubQueueType,
)
from partibus.fragment.message import Held, MessageState, NewMessage, Overlay
from partibus.fragment.outbox import commands as transfer_commands
from partibus.fragment.outbox.commands import (
    Collect,
    Fence,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    ReturnParcels,
    Transfer,
)
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.sessions import commands as session_commands
from partibus.fragment.sessions.commands import (
    AcceptSession,
    FindOldestSession,
    GetSessionState,
    ListSessions,
    RenewSession,
    SetSessionState,
)
from partibus.fragment.transactions import commands as transaction_commands
from partibus.fragment.transactions.commands import (
    SILENT,
    CheckLocks,
    EnqueueNumbered,
    ReserveNumbers,
    Transact,
)

OF_RECEIVERS = {commands.Demand, commands.Interest, commands.Detach, AcceptSession}
"""Sent as rows that name the receiver; see the tests of `remote`."""
INSIDE = {
    commands.Undelivered,
    commands.Suspend,
    commands.Resume,
    commands.Tick,
    commands.DropLocks,
    Collect,
    Fetch,
    Forwarded,
    ReturnParcels,
    Redirect,
    ForwardWaiting,
}
"""Never leave the process that runs the fragment."""
KEPT_BY_THE_OWNER = {"position", "deferred", "busy"}
"""What a gateway has no use for."""

numbers = st.integers(0, 2**63 - 1)
millis = st.integers(0, 2**48)
small = st.integers(-1, 2**31 - 1)
texts = st.none() | st.text(max_size=20)
blobs = st.binary(max_size=40)
number_lists = st.lists(numbers, max_size=5)
subqueues = st.sampled_from(SubQueueType)
overlays = st.none() | st.builds(Overlay, blobs, texts, texts)
new_messages = st.builds(NewMessage, blobs, small, millis, texts, texts, texts)


@st.composite
def held_messages(draw: st.DrawFn) -> Held:
    held = Held(draw(numbers), 0, draw(small), draw(millis), draw(millis), draw(small), None)
    held.overlay = draw(overlays)
    held.token = draw(numbers)
    held.locked_until_ms = draw(millis)
    held.state = draw(st.sampled_from(MessageState))
    return held


@st.composite
def bus_errors(draw: st.DrawFn) -> BusError:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, BusError)
    ]
    error: BusError = draw(st.sampled_from(kinds))(draw(st.text(max_size=30)))
    error.entity_path = draw(st.text(max_size=10))
    if isinstance(error, StoreCorrupt):
        error.place = draw(st.sampled_from(["", "/data/store-1/log", "lane 3"]))
    return error


PORT: Any = object()
COMMANDS: dict[type[Command], st.SearchStrategy[Any]] = {
    Enqueue: st.builds(
        lambda messages, size, origin: Enqueue(
            PORT, messages, list(range(len(messages))), size, origin
        ),
        st.lists(new_messages, max_size=4),
        small,
        st.none() | st.builds(Origin, numbers, st.lists(numbers, min_size=1, max_size=4)),
    ),
    Transfer: st.builds(
        lambda messages, size, path: Transfer(
            PORT, messages, list(range(len(messages))), size, path
        ),
        st.lists(new_messages, max_size=4),
        small,
        st.text(max_size=20),
    ),
    Fence: st.builds(lambda origin, number: Fence(PORT, origin, number), numbers, numbers),
    Settle: st.builds(
        lambda subqueue, tokens, outcome, overlay: Settle(
            PORT, None, subqueue, tokens, outcome, overlay
        ),
        subqueues,
        number_lists,
        st.sampled_from(Outcome),
        overlays,
    ),
    Renew: st.builds(
        lambda subqueue, tokens: Renew(PORT, subqueue, tokens), subqueues, number_lists
    ),
    CancelScheduled: st.builds(lambda numbers: CancelScheduled(PORT, numbers), number_lists),
    ReceiveDeferred: st.builds(
        lambda subqueue, numbers, deletes, session, lock: ReceiveDeferred(
            PORT, subqueue, numbers, deletes, session, lock
        ),
        subqueues,
        number_lists,
        st.booleans(),
        texts,
        numbers,
    ),
    Peek: st.builds(
        lambda subqueue, first, count, size, session: Peek(
            PORT, subqueue, first, count, size, session
        ),
        subqueues,
        numbers,
        small,
        small,
        texts,
    ),
    Purge: st.builds(
        lambda subqueue, count, before, session: Purge(PORT, subqueue, count, before, session),
        subqueues,
        small,
        millis,
        texts,
    ),
    FindOldestSession: st.builds(lambda: FindOldestSession(PORT)),
    RenewSession: st.builds(
        lambda session, lock: RenewSession(PORT, session, lock), st.text(max_size=20), numbers
    ),
    GetSessionState: st.builds(
        lambda session, lock: GetSessionState(PORT, session, lock), st.text(max_size=20), numbers
    ),
    SetSessionState: st.builds(
        lambda session, lock, state: SetSessionState(PORT, session, lock, state),
        st.text(max_size=20),
        numbers,
        st.none() | blobs,
    ),
    ListSessions: st.builds(
        lambda after, skip, count: ListSessions(PORT, after, skip, count),
        st.none() | millis,
        small,
        small,
    ),
    Question: st.builds(lambda name, payload: Question(PORT, name, payload), st.text(), blobs),
    CheckLocks: st.builds(
        lambda subqueue, tokens, outcome: CheckLocks(PORT, subqueue, tokens, outcome),
        subqueues,
        number_lists,
        st.sampled_from(Outcome),
    ),
    ReserveNumbers: st.builds(lambda count: ReserveNumbers(PORT, count), small),
    EnqueueNumbered: st.builds(
        lambda messages, size, first, life: EnqueueNumbered(PORT, messages, size, first, life),
        st.lists(new_messages, max_size=4),
        small,
        numbers,
        small,
    ),
}


def silent(command: Any) -> Any:
    """The command as a part of a transaction."""
    command.port = SILENT
    return command


IN_TRANSACTIONS = (Enqueue, Settle, CancelScheduled, EnqueueNumbered, Transfer)
PARTS = st.one_of([COMMANDS[kind] for kind in IN_TRANSACTIONS])
COMMANDS[commands.Pick] = st.builds(
    lambda subqueue, sequences: commands.Pick(PORT, subqueue, sequences),
    st.sampled_from(commands.SubQueueType),
    st.lists(numbers, max_size=4),
)
COMMANDS[Transact] = st.builds(
    lambda work, size: Transact(PORT, work, size),
    st.lists(st.tuples(numbers, PARTS.map(silent)), max_size=4),
    small,
)


def travelled(row: Row) -> Row:
    """A row as it arrives in another process."""
    (arrived,) = msgspec.msgpack.decode(msgspec.msgpack.encode([row]), type=list[list[Any]])
    return arrived


def seen(value: object, kept: set[str] = frozenset()) -> object:  # type: ignore[assignment]
    """What an object is made of, for comparing."""
    if isinstance(value, (list, tuple)):
        return [seen(item, kept) for item in value]
    kind = type(value)
    # A dataclass has the first, a plain class the second, and the third when it is compiled.
    sources = ("__dataclass_fields__", "__slots__", "__mypyc_attrs__")
    names = next(filter(None, (getattr(kind, source, None) for source in sources)), None)
    if names is None or isinstance(value, (int, str, bytes)):
        return value
    return {name: seen(getattr(value, name), kept) for name in names if name not in kept}


BASES = (Command, commands.AnsweredCommand)


def test_every_command_has_a_way() -> None:
    every = {
        kind
        for module in (commands, session_commands, transaction_commands, transfer_commands)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Command) and kind not in BASES
    }
    assert every == set(ENCODERS) | OF_RECEIVERS | INSIDE
    assert set(ENCODERS) == set(COMMANDS)
    assert len(DECODERS) == len(ENCODERS)


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_a_command_comes_out_as_it_went_in(kind: type[Command], data: st.DataObject) -> None:
    command = data.draw(COMMANDS[kind])
    row = travelled(ENCODERS[kind](command, 7, 12))
    assert row[1:3] == [7, 12]
    assert rows.is_request(row) or kind is EnqueueNumbered
    arrived = DECODERS[row[0]](row, PORT)
    assert type(arrived) is kind
    assert seen(arrived) == seen(command)


def test_a_settlement_that_wants_no_answer_gets_no_port() -> None:
    command = Settle(None, None, SubQueueType.MAIN, [1], Outcome.RELEASE)
    row = travelled(ENCODERS[Settle](command, 0, 12))
    arrived = DECODERS[row[0]](row, PORT)
    assert isinstance(arrived, Settle)
    assert arrived.port is None


class Outbox:
    """Takes the one row of an answer."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def post(self, row: Row, byte_count: int) -> None:
        self.rows.append(travelled(row))


class Ear:
    """A port that notes whatever it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.heard.append((name, arguments))


def told(command: Any, say: Callable[[Any], None]) -> tuple[str, Any]:
    """What the port of a command hears when the far port is told something."""
    outbox, ear = Outbox(), Ear()
    host = Host(outbox, lambda fragment_id: None, lambda name, payload: b"")
    count = len(command.requests) if isinstance(command, Enqueue) else 0
    command.port = ear
    say(Reply(host, 7, count, 0))
    (row,) = outbox.rows
    assert row[1] == 7
    ANSWERS[row[0]](command, row)
    ((name, arguments),) = ear.heard
    return name, seen(arguments, KEPT_BY_THE_OWNER)


def error_seen(error: BusError) -> tuple[type[BusError], dict[str, object]]:
    return type(error), vars(error)


@settings(deadline=None)
@given(
    first=numbers,
    requests=st.lists(small, min_size=1, max_size=5),
    dropped=number_lists,
    data=st.data(),
)
def test_confirmations(
    first: int, requests: list[int], dropped: list[int], data: st.DataObject
) -> None:
    command = Enqueue(PORT, [], requests, 0)
    places = data.draw(st.lists(st.sampled_from(range(len(requests))), min_size=1, unique=True))
    heard = told(command, lambda port: port.confirmed(places, first, dropped))
    every = len(places) == len(requests)
    expected = requests if every else [requests[place] for place in places]
    assert heard == ("confirmed", [expected, first, dropped])


@settings(deadline=None)
@given(error=bus_errors())
def test_errors_keep_their_class_and_every_field(error: BusError) -> None:
    ear = Ear()
    CancelScheduled(ear, []).refuse(rows.to_error(travelled(rows.error_row(error))))
    ((name, (arrived,)),) = ear.heard
    assert name == "failed"
    assert error_seen(arrived) == error_seen(error)


def test_a_peer_of_the_previous_version_gets_the_rows_that_it_knows() -> None:
    error, outbox = EntityNotFound.named("q"), Outbox()
    host = Host(outbox, lambda fragment_id: None, lambda name, payload: b"", version=2)
    Reply(host, 7, 0, 0).failed(error)
    assert outbox.rows == [[FAILED, 7, ["EntityNotFound", error.text, error.tracking_id]]]


def test_errors_of_the_previous_version_arrive() -> None:
    arrived = rows.to_error(["EntityNotFound", "gone", "an id"])
    assert (type(arrived), arrived.text, arrived.tracking_id) == (EntityNotFound, "gone", "an id")


def test_an_error_from_outside_the_taxonomy_arrives_as_its_nearest_class() -> None:
    arrived = rows.to_error(travelled(rows.error_row(TargetNotFound("forward_to", "no"))))
    assert (type(arrived), arrived.text) == (ArgumentError, "forward_to: no")


@settings(deadline=None)
@given(error=bus_errors(), lost=number_lists)
def test_refusals_and_failures(error: BusError, lost: list[int]) -> None:
    name, (requests, refused) = told(
        Enqueue(PORT, [], [4, 5], 0), lambda port: port.refused([0, 1], error)
    )
    assert (name, requests) == ("refused", [4, 5])
    assert error_seen(refused) == error_seen(error)
    settle = Settle(PORT, "mine", SubQueueType.MAIN, lost, Outcome.COMPLETE)
    assert told(settle, lambda port: port.settled(None, lost, None)) == (
        "settled",
        ["mine", lost, None],
    )
    _, (_, _, failed) = told(settle, lambda port: port.settled(None, [], error))
    assert error_seen(failed) == error_seen(error)


@settings(deadline=None)
@given(held=st.lists(held_messages(), max_size=4), numbers=number_lists, count=small)
def test_messages_and_numbers(held: list[Held], numbers: list[int], count: int) -> None:
    bodies = [b"body"] * len(held)
    peek = Peek(PORT, SubQueueType.MAIN, 0, 1, 1)
    assert told(peek, lambda port: port.found(held, bodies)) == (
        "found",
        [seen(held, KEPT_BY_THE_OWNER), bodies],
    )
    renew = Renew(PORT, SubQueueType.MAIN, [])
    assert told(renew, lambda port: port.renewed(numbers)) == ("renewed", [numbers])
    purge = Purge(PORT, SubQueueType.MAIN, 1, 1)
    assert told(purge, lambda port: port.done(count)) == ("done", [count])


@settings(deadline=None)
@given(state=st.none() | blobs, names=st.lists(st.text(max_size=20), max_size=4), count=small)
def test_sessions_and_their_state(state: bytes | None, names: list[str], count: int) -> None:
    get = GetSessionState(PORT, "a", 1)
    assert told(get, lambda port: port.state_found(state)) == ("state_found", [state])
    listing = ListSessions(PORT, None, 0, 1)
    assert told(listing, lambda port: port.listed(names, count)) == ("listed", [names, count])
    error = errors.SessionLockLost()
    for command in (get, listing, RenewSession(PORT, "a", 1), FindOldestSession(PORT)):
        name, (failed,) = told(command, lambda port: port.failed(error))
        assert (name, error_seen(failed)) == ("failed", error_seen(error))


@settings(deadline=None)
@given(answer=blobs)
def test_answers_to_questions(answer: bytes) -> None:
    outbox, ear = Outbox(), Ear()
    host = Host(outbox, lambda fragment_id: None, lambda name, payload: answer)
    question = Question(ear, "how", b"{}")
    host.receive([travelled(ENCODERS[Question](question, 7, 0))])
    (row,) = outbox.rows
    ANSWERS[row[0]](question, row)
    assert ear.heard == [("answered", (answer,))]


@settings(deadline=None)
@given(first=numbers, life=small)
def test_numbers_that_were_set_aside(first: int, life: int) -> None:
    command = ReserveNumbers(PORT, 1)
    assert told(command, lambda port: port.reserved(first, life)) == ("reserved", [first, life])
