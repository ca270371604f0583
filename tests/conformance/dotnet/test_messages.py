"""Messages by the frames of the .NET client: send, batch, receive, settle, management."""

import time

import pytest

from conformance.dotnet.client import (
    DotNetClient,
    in_transaction,
    lock_token,
    send_batch,
    text,
)
from partibus.amqp.codec.types import LONG, UUID16, Array, Int, Long, Timestamp, UInt
from partibus.amqp.delivery import modified, rejected
from partibus.amqp.errors import AmqpError
from partibus.client.message import IncomingMessage, OutgoingMessage
from support.server import ServerProcess


def message(body: str, **fields: object) -> OutgoingMessage:
    return OutgoingMessage(body=body.encode(), message_id=body, **fields)


async def test_single_messages_and_batches(server: ServerProcess, queue: str) -> None:
    async with DotNetClient.connect(server) as client:
        sender = await client.sender(queue)
        assert sender.usable().properties["com.microsoft:max-message-batch-size"]
        assert sender.usable().max_message_size > 0
        await sender.send(message("one").encode())
        await send_batch(sender, message("two"), message("three"))
        receiver = await client.receiver(queue)
        found = await receiver.collect(10)
        assert [text(one) for one in found] == [b"one", b"two", b"three"]
        await receiver.settle(found[:1])
        await receiver.settle(found[1:2], modified(False, True))
        info = {"DeadLetterReason": "sour", "DeadLetterErrorDescription": "it is"}
        dead = rejected(AmqpError("com.microsoft:dead-letter", "", info))
        await receiver.settle(found[2:], dead)
        assert await receiver.collect(1) == []
        letters = await client.receiver(f"{queue}/$DeadLetterQueue", deletes=True)
        (letter,) = await letters.collect(5)
        properties = IncomingMessage(letter.payload).application_properties
        assert properties == info


async def test_requests_of_the_receiver(server: ServerProcess, queue: str) -> None:
    async with DotNetClient.connect(server) as client:
        sender, receiver = await client.sender(queue), await client.receiver(queue)
        await send_batch(sender, message("one"), message("two"))
        management = await client.management(queue)
        peek = {"from-sequence-number": Long(0), "message-count": Int(10)}
        status, body, _ = await management.ask("peek-message", peek, link=receiver)
        assert status == 200 and len(body["messages"]) == 2
        (first,) = await receiver.collect(1)
        tokens = Array(UUID16, [lock_token(first)])
        status, body, _ = await management.ask("renew-lock", {"lock-tokens": tokens}, link=receiver)
        assert status == 200 and body["expirations"].items[0] > time.time() * 1000
        await receiver.settle([first], modified(False, True))
        numbers = Array(LONG, [IncomingMessage(first.payload).sequence_number])
        fetch = {"sequence-numbers": numbers, "receiver-settle-mode": UInt(1)}
        status, body, _ = await management.ask("receive-by-sequence-number", fetch, link=receiver)
        assert status == 200
        deferred = body["messages"][0]
        settle = {"lock-tokens": Array(UUID16, [deferred["lock-token"]])}
        settle |= {"disposition-status": "completed"}
        status, _, _ = await management.ask("update-disposition", settle, link=receiver)
        assert status == 200
        status, _, condition = await management.ask("update-disposition", settle, link=receiver)
        assert (status, condition) == (410, "com.microsoft:message-lock-lost")
        empty = {"from-sequence-number": Long(1 << 40), "message-count": Int(1)}
        assert (await management.ask("peek-message", empty))[0] == 204


async def test_scheduling_and_deletion(server: ServerProcess, queue: str) -> None:
    async with DotNetClient.connect(server) as client:
        sender, management = await client.sender(queue), await client.management(queue)
        due_ms = int(time.time() * 1000) + 3_600_000
        later = message("later", scheduled_ms=due_ms)
        entry = {"message": later.encode(), "message-id": "later"}
        asked = {"messages": [entry]}
        status, body, _ = await management.ask("schedule-message", asked, link=sender)
        assert status == 200
        cancel = {"sequence-numbers": Array(LONG, list(body["sequence-numbers"].items))}
        status, _, _ = await management.ask("cancel-scheduled-message", cancel, link=sender)
        assert status == 200
        await send_batch(sender, message("one"), message("two"))
        purge = {"message-count": Int(10), "enqueued-time-utc": Timestamp(due_ms)}
        status, body, _ = await management.ask("batch-delete-messages", purge)
        assert (status, body["message-count"]) == (200, 2)


@pytest.mark.rule("TXN-1", "TXN-2")
async def test_a_transaction(server: ServerProcess, queue: str) -> None:
    async with DotNetClient.connect(server) as client:
        sender, receiver = await client.sender(queue), await client.receiver(queue)
        await sender.send(message("one").encode())
        (one,) = await receiver.collect(1)
        controller = await client.controller()
        txn_id = await controller.declare()
        sent = await sender.put(message("undone").encode(), in_transaction(txn_id))
        await sender.answered()
        assert sent.is_taken
        await controller.discharge(txn_id, fail=True)
        assert await receiver.collect(1) == []
        txn_id = await controller.declare()
        await sender.put(message("two").encode(), in_transaction(txn_id))
        settled = receiver.complete(one, txn_id)
        await receiver.answered()
        await sender.answered()
        assert settled.is_taken
        assert await receiver.collect(1) == []
        await controller.discharge(txn_id)
        assert [text(found) for found in await receiver.collect(5)] == [b"two"]


@pytest.mark.rule("TXN-4", "TXN-5")
async def test_a_transaction_over_entities_in_one_session(
    server: ServerProcess, queue: str, topic: str
) -> None:
    async with DotNetClient.connect(server, cross_entity=True) as client:
        receiver = await client.receiver(queue)
        here, there = await client.sender(queue), await client.sender(topic)
        await here.send(message("in").encode())
        (found,) = await receiver.collect(1)
        controller = await client.controller()
        txn_id = await controller.declare()
        receiver.complete(found, txn_id)
        await there.put(message("out").encode(), in_transaction(txn_id))
        await receiver.answered()
        await there.answered()
        await controller.discharge(txn_id)
        assert await receiver.collect(1) == []
    async with DotNetClient.connect(server) as client:
        subscriber = await client.receiver(f"{topic}/Subscriptions/all")
        assert [text(one) for one in await subscriber.receive()] == [b"out"]


@pytest.mark.rule("FLT-1", "FLT-2")
async def test_the_rule_manager(server: ServerProcess, topic: str) -> None:
    async with DotNetClient.connect(server) as client:
        management = await client.management(f"{topic}/Subscriptions/all")
        description = {
            "sql-filter": {"expression": "size > 10"},
            "sql-rule-action": {"expression": "SET seen = 1"},
            "rule-name": "large",
        }
        add = {"rule-name": "large", "rule-description": description}
        assert (await management.ask("add-rule", add))[0] == 200
        assert (await management.ask("add-rule", add))[0] == 409
        page = {"top": Int(100), "skip": Int(0)}
        status, body, _ = await management.ask("enumerate-rules", page)
        assert status == 200
        described = [rule["rule-description"] for rule in body["rules"]]
        assert [rule.descriptor for rule in described] == [0x13700000004] * 2
        assert [rule.value[2] for rule in described] == ["$Default", "large"]
        assert (await management.ask("remove-rule", {"rule-name": "$Default"}))[0] == 200
        assert (await management.ask("remove-rule", {"rule-name": "$Default"}))[0] == 404
        status, body, _ = await management.ask("enumerate-rules", {"top": Int(5), "skip": Int(1)})
        assert (status, body) == (204, {})
        sender = await client.sender(topic)
        await send_batch(
            sender,
            message("small", properties={"size": 5}),
            message("large", properties={"size": 50}),
        )
        (found,) = await (await client.receiver(f"{topic}/Subscriptions/all")).collect(5)
        assert text(found) == b"large"
        assert IncomingMessage(found.payload).application_properties["seen"] == 1
