"""Transactions through our own client: dead letters go elsewhere, or stay, never both."""

import uuid

import pytest

from conformance.partitioning.partitions import keys_in
from conformance.transactions.namespace import PARTITIONS, Queues
from partibus.amqp.delivery import rejected
from partibus.amqp.errors import AmqpError
from partibus.client.bus import Bus
from partibus.client.connection_string import parse_connection_string
from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.client.transactions import Move, TransactedLinks, TransactionOutcome
from support.server import ServerProcess

DEAD = rejected(AmqpError("com.microsoft:dead-letter", "", {"DeadLetterReason": "sour"}))
LARGE = 300_000
"""More than a frame holds."""


async def bury(bus: Bus, queue: str, *messages: OutgoingMessage) -> None:
    """Send messages and dead-letter them."""
    sender = await bus.sender(queue)
    await sender.send_many([message.encode() for message in messages])
    receiver = await bus.receiver(queue)
    await receiver.settle(await receiver.collect(len(messages)), DEAD)


async def bodies(bus: Bus, path: str) -> list[object]:
    management, found, number = await bus.management(path), [], 0
    while page := await management.peek(number, 100):
        found += [message.body()[1] for message in page]
        number = page[-1].sequence_number + 1
    return found


def open_bus(server: ServerProcess):
    return Bus.open(parse_connection_string(server.connection_string))


@pytest.mark.rule("TXN-2", "TXN-4")
async def test_dead_letters_are_moved_each_in_a_transaction(
    server: ServerProcess, queues: Queues
) -> None:
    source, target = queues.fresh("plain"), queues.fresh("plain")
    async with open_bus(server) as bus:
        sent = [OutgoingMessage(body=b"%d" % n) for n in range(5)]
        sent.append(OutgoingMessage(body=b"x" * LARGE))
        await bury(bus, source, *sent)
        dead = f"{source}/$DeadLetterQueue"
        links = await TransactedLinks.open(bus, dead)
        found = await links.receiver.collect(10)
        sender, own = await links.sender(target), await links.sender(source)
        moves = [Move(m, sender, IncomingMessage(m.payload).resent()) for m in found]
        moves[0].sender = own
        moves[1].sender = None
        await links.carry_out(moves)
        assert {move.outcome for move in moves} == {TransactionOutcome.COMMITTED}
        assert await bodies(bus, dead) == []
        assert await bodies(bus, source) == [b"0"]
        # Where the target is in another store, what was sent arrives a moment after the commit.
        expected = [b"2", b"3", b"4", b"x" * LARGE]
        while (arrived := await bodies(bus, target)) != expected:
            assert arrived == expected[: len(arrived)]


@pytest.mark.rule("TXN-2", "TXN-13")
async def test_a_refused_part_leaves_the_others_alone(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("parted")
    key, other = keys_in(1, PARTITIONS, 1)[0], keys_in(2, PARTITIONS, 1)[0]
    async with open_bus(server) as bus:
        messages = [OutgoingMessage(body=b"%d" % n, partition_key=key) for n in range(2)]
        await bury(bus, queue, *messages)
        links = await TransactedLinks.open(bus, f"{queue}/$DeadLetterQueue")
        found = await links.receiver.collect(2)
        sender = await links.sender(queue)
        payloads = [OutgoingMessage(body=b"new", partition_key=k).encode() for k in (key, other)]
        moves = [Move(m, sender, p) for m, p in zip(found, payloads, strict=True)]
        await links.carry_out(moves)
        assert [move.outcome for move in moves] == [
            TransactionOutcome.COMMITTED,
            TransactionOutcome.ROLLED_BACK,
        ]
        assert "in one partition" in str(moves[1].error)
        assert await bodies(bus, queue) == [b"new"]
        assert await bodies(bus, f"{queue}/$DeadLetterQueue") == [b"1"]


@pytest.mark.rule("TXN-2")
async def test_a_lost_lock_sends_nothing(server: ServerProcess, queues: Queues) -> None:
    source, target = queues.fresh("plain"), queues.fresh("plain")
    async with open_bus(server) as bus:
        await bury(bus, source, OutgoingMessage(body=b"one"))
        dead = f"{source}/$DeadLetterQueue"
        links = await TransactedLinks.open(bus, dead)
        (message,) = await links.receiver.collect(1)
        management = await bus.management(dead)
        await management.settle([uuid.UUID(bytes_le=message.tag)], "completed")
        sender = await links.sender(target)
        move = Move(message, sender, OutgoingMessage(body=b"two").encode())
        await links.carry_out([move])
        assert move.outcome is TransactionOutcome.ROLLED_BACK
        assert await bodies(bus, target) == []
        assert await bodies(bus, dead) == []
