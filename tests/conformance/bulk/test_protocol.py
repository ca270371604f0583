"""The bulk path over two workers: what is asked, what is answered, what is refused."""

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusClient

from conformance.bulk.client import BulkClient, Refused
from conformance.partitioning.operator import Operator
from conformance.settlement.steps import until
from partibus.client.message import IncomingMessage, OutgoingMessage
from support.receiving import collect
from support.sas import sas_token
from support.server import ServerProcess

pytestmark = pytest.mark.group("flight")
_numbers = itertools.count()


@pytest.fixture
def queue() -> str:
    return f"parted-{next(_numbers)}"


@pytest.fixture
def bulk(server: ServerProcess) -> BulkClient:
    return BulkClient(server)


def letters(count: int, **fields: Any) -> list[bytes]:
    return [OutgoingMessage(body=b"%d" % n, **fields).encode() for n in range(count)]


def held(bulk: BulkClient, queue: str) -> dict[int, list[int]]:
    """The numbers of the messages of each fragment."""
    found = {}
    for index in range(4):
        batches = bulk.read(queue, index)
        numbers = [n for batch in batches for n in batch.column("sequence_number").to_pylist()]
        assert all(number >> 48 == index for number in numbers)
        found[index] = [number & (1 << 48) - 1 for number in numbers]
    return found


def test_each_fragment_is_where_the_server_says(bulk: BulkClient, queue: str) -> None:
    status, answer = bulk.discover(queue)
    assert status == 200
    assert (answer["entity"], answer["kind"]) == (queue, "queue")
    assert (answer["requires_session"], answer["detects_duplicates"]) == (False, False)
    locations = [fragment["location"] for fragment in answer["fragments"]]
    assert len(set(locations)) == 2
    other = next(i for i in range(4) if locations[i] != locations[0])
    with pytest.raises(Refused, match=f"Fragment {other} of '{queue}' is not served here"):
        bulk.ask(queue, "status", fragments=[other])


def test_what_is_put_is_read_and_received(
    bulk: BulkClient, queue: str, client: ServiceBusClient
) -> None:
    answers = bulk.put(queue, letters(10), letters(5))
    assert [answer["accepted"] for answer in answers] == [10, 5]
    found = held(bulk, queue)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in found.values())
    assert sum(map(len, found.values())) == 15
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, 15)
    assert sorted(str(message) for message in messages)[:2] == ["0", "0"]


def test_a_key_decides_the_fragment_whichever_worker_is_asked(bulk: BulkClient, queue: str) -> None:
    bulk.put(queue, letters(3, partition_key="k"), at=0)
    other = next(i for i, at in bulk.locations(queue).items() if at != bulk.locations(queue)[0])
    bulk.put(queue, letters(3, partition_key="k"), at=other)
    assert sorted(map(len, held(bulk, queue).values())) == [0, 0, 0, 6]


def test_a_range_and_its_plan(bulk: BulkClient, queue: str) -> None:
    bulk.put(queue, letters(20, partition_key="k"))
    (index,) = [i for i, numbers in held(bulk, queue).items() if numbers]
    plan = bulk.ask(queue, "plan", index, **{"from": {index: 5}}, max_messages=4)
    assert plan["fragments"][str(index)]["count"] == 4
    assert plan["fragments"][str(index)]["end"] == 9
    limits = {"limits": {index: {"messages": 2}}}
    plan = bulk.ask(queue, "plan", index, **{"from": {index: 5}}, **limits)
    assert plan["fragments"][str(index)]["end"] == 7
    batches = bulk.read(queue, index, **{"from": 5, "to": 9, "max_bytes_per_batch": 1})
    assert [batch.num_rows for batch in batches] == [1, 1, 1, 1]
    message = IncomingMessage(batches[0].column("message")[0].as_py())
    assert (message.sequence_number, message.state) == (index << 48 | 5, "active")
    assert message.body() == ("data", b"4")


def test_a_claim_from_its_beginning_to_its_end(bulk: BulkClient, queue: str) -> None:
    bulk.put(queue, letters(10, partition_key="k"))
    (index,) = [i for i, numbers in held(bulk, queue).items() if numbers]
    who = {"owner": "job", "epoch": 5, "start": "one"}
    limits = {"limits": {index: {"messages": 4}}}
    told = bulk.ask(queue, "claim", index, **who, **limits, duration_ms=60_000)
    assert told["fragments"][str(index)]["count"] == 4
    status = bulk.ask(queue, "status", index, fragments=[index])["fragments"][str(index)]
    assert (status["active"], status["claimed"]) == (10, 4)
    old = {**who, "epoch": 4}
    told = bulk.ask(queue, "settle", index, **old, fragments=[index])
    assert told["fragments"][str(index)]["error"]["condition"] == "partibus:claim-fenced"
    batches = bulk.read(queue, index, mode="claim", owner="job", start="one")
    assert sum(batch.num_rows for batch in batches) == 4
    (claim,) = bulk.ask(queue, "claims", index, fragments=[index])["fragments"][str(index)][
        "claims"
    ]
    assert (claim["owner"], claim["count"], claim["epoch"]) == ("job", 4, 5)
    told = bulk.ask(queue, "settle", index, **who, fragments=[index])
    assert told["fragments"][str(index)]["count"] == 4
    assert len(held(bulk, queue)[index]) == 6


def test_a_cursor_from_its_beginning_to_its_end(bulk: BulkClient, queue: str) -> None:
    keep = {"retain_ms": 60_000, "retain_bytes": 10_000}
    bulk.ask(queue, "cursor.put", name="c", positions={0: 0}, **keep)
    (cursor,) = bulk.ask(queue, "cursors", fragments=[0])["fragments"]["0"]["cursors"]
    assert (cursor["name"], cursor["position"]) == ("c", 0)
    assert bulk.ask(queue, "cursor.drop", name="c")["fragments"]["0"]["count"] == 1
    assert bulk.ask(queue, "cursor.drop", name="c")["fragments"]["0"]["count"] == 0


def test_rows_that_are_refused_hold_nobody_up(bulk: BulkClient, queue: str) -> None:
    good = letters(2)
    large = OutgoingMessage(body=b"x" * 2_000_000).encode()
    [answer] = bulk.put(queue, [good[0], b"\x00", large, good[1]])
    assert answer["accepted"] == 2
    refused = {row: condition for row, condition, _, _ in answer["refused"]}
    assert refused == {1: "amqp:decode-error", 2: "amqp:link:message-size-exceeded"}
    assert sum(map(len, held(bulk, queue).values())) == 2


def test_a_worker_that_was_killed_is_asked_again_elsewhere(
    server: ServerProcess, bulk: BulkClient, queue: str
) -> None:
    bulk.put(queue, letters(20))
    before = held(bulk, queue)
    old = bulk.locations(queue)
    Operator(server).kill_worker(1)

    def moved() -> bool:
        try:
            status, answer = bulk.discover(queue)
        except OSError:  # it was the worker that took this connection
            return False
        now = {f["index"]: f["location"] for f in answer.get("fragments", ())}
        return status == 200 and None not in now.values() and now != old

    until("the worker to be back at another place", moved)

    def answers() -> bool:
        """Each worker finds the other again by itself, one a little later than the other."""
        try:
            return held(bulk, queue) == before
        except (OSError, TypeError, Refused):
            return False

    until("all fragments to be read again", answers)


# --- who may --------------------------------------------------------------------------------------


def token_of(server: ServerProcess, entity: str, policy: str, key: str, **given: Any) -> str:
    resource = f"sb://127.0.0.1:{server.ready.amqp_port}/{entity}"
    return sas_token(resource, policy=policy, key=key, **given)


def test_listen_reads_and_send_writes(server: ServerProcess, queue: str) -> None:
    listener = BulkClient(server, token_of(server, "", "NamespaceListen", "namespace-listen-key"))
    sender = BulkClient(server, token_of(server, "", "NamespaceSend", "namespace-send-key"))
    for one in (listener, sender):
        assert one.discover(queue)[0] == 200
    [answer] = sender.put(queue, letters(4))
    assert answer["accepted"] == 4
    assert sum(map(len, held(listener, queue).values())) == 4
    with pytest.raises(Refused, match="'Send' claim"):
        listener.put(queue, letters(1))
    for refused in (
        lambda: sender.read(queue, 0),
        lambda: sender.ask(queue, "status"),
        lambda: sender.ask(queue, "cursor.drop", name="c"),
    ):
        with pytest.raises(Refused, match="'Listen' claim") as caught:
            refused()
        assert caught.value.condition == "amqp:unauthorized-access"


@pytest.mark.parametrize(
    ("entity", "policy", "key", "lifetime"),
    [
        ("", "RootManageSharedAccessKey", "wrong", 60),
        ("", "RootManageSharedAccessKey", "SAS_KEY_VALUE", -60),
        ("guarded", "QueueListen", "queue-listen-key", 60),
        ("", "Nobody", "key", 60),
    ],
)
def test_tokens_that_are_not_good_here(
    server: ServerProcess, queue: str, entity: str, policy: str, key: str, lifetime: int
) -> None:
    token = token_of(server, entity, policy, key, lifetime_seconds=lifetime)
    stranger = BulkClient(server, token)
    assert stranger.discover(queue)[0] == 401
    with pytest.raises(Refused) as caught:
        stranger.read(queue, 0)
    assert caught.value.condition == "amqp:unauthorized-access"
    with pytest.raises(Refused):
        stranger.put(queue, letters(1))


def test_no_token_at_all(server: ServerProcess, queue: str) -> None:
    nobody = BulkClient(server, "")
    assert nobody.discover(queue)[0] == 401
    with pytest.raises(Refused, match="A token is needed"):
        nobody.ask(queue, "status")


def test_a_policy_of_a_queue_is_good_for_that_queue(server: ServerProcess) -> None:
    token = token_of(server, "guarded", "QueueListen", "queue-listen-key")
    client = BulkClient(server, token)
    assert client.discover("guarded")[0] == 200
    assert client.read("guarded", 0) == []


# --- what makes no sense --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("status", b"", "cannot be read"),
        ("status", b"[]", "cannot be read"),
        ("status", b'{"entity": 1}', "cannot be read"),
        ("status", b'{"entity": "q", "more": 1}', "cannot be read"),
        ("status", b'{"entity": "' + b"a" * 500 + b'"}', "cannot be read"),
        ("status", b'{"entity": "' + b"a" * 2_000_000 + b'"}', "the limit is"),
        ("status", b'{"entity": "nowhere"}', "could not be found"),
        ("plan", b'{"entity": "q", "from": {"0": -1}}', "cannot be read"),
        ("plan", b'{"entity": "q", "from": {"x": 1}}', "cannot be read"),
        ("plan", b'{"entity": "q", "from": {"0": 281474976710656}}', "cannot be read"),
        ("claim", b'{"entity": "q", "owner": ""}', "cannot be read"),
        ("shutdown", b'{"entity": "q"}', "There is no action 'shutdown'"),
    ],
)
def test_actions_that_make_no_sense(
    bulk: BulkClient, queue: str, name: str, body: bytes, text: str
) -> None:
    location = bulk.locations(queue)[0]
    body = body.replace(b'"q"', json.dumps(queue).encode())
    with pytest.raises(Refused, match=text) as caught:
        bulk.raw_action(location, name, body)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "ticket",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b'{"entity": "q"}',
        b'{"entity": "q", "fragment": 0, "mode": "all"}',
        b'{"entity": "q", "fragment": 99, "mode": "range"}',
        b'{"entity": "q", "fragment": -1, "mode": "range"}',
        b'{"entity": "q", "fragment": 0, "mode": "range", "max_bytes_per_batch": 999999999}',
        b'{"entity": "q", "fragment": 0, "mode": "range", "sub_queue": "transfer"}',
        b'{"entity": "q", "fragment": 0, "mode": "claim", "owner": "nobody", "start": "x"}',
        b'{"entity": "q/../../etc", "fragment": 0, "mode": "range"}',
    ],
)
def test_tickets_that_make_no_sense(bulk: BulkClient, queue: str, ticket: bytes) -> None:
    location = bulk.locations(queue)[0]
    with pytest.raises(Refused) as caught:
        bulk.raw_read(location, ticket.replace(b'"q"', json.dumps(queue).encode()))
    assert not caught.value.retryable


def test_puts_that_make_no_sense(bulk: BulkClient, queue: str) -> None:
    wrong = pa.RecordBatch.from_pydict({"other": [b"x"]})
    text = pa.RecordBatch.from_pydict({"message": ["x"]})
    nulls = pa.RecordBatch.from_arrays([pa.array([None], pa.binary())], names=["message"])
    for batch in (wrong, text, nulls):
        with pytest.raises(Refused, match="needs a binary column 'message'"):
            bulk.put(queue, batch)
    with pytest.raises(Refused, match="cannot be read"):
        bulk.put(queue, letters(1), deliver="exactlyOnce")
    assert sum(map(len, held(bulk, queue).values())) == 0


def test_a_disabled_queue_takes_nothing(bulk: BulkClient) -> None:
    with pytest.raises(Refused, match="is disabled for sending"):
        bulk.put("disabled", letters(1))
