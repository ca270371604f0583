"""The bytes of each command between workers, which nodes of different releases must agree on."""

from typing import Any

import msgspec
import pytest

from partibus.cluster.command_rows import DECODERS, ENCODERS
from partibus.fragment import commands
from partibus.fragment.commands import Command, Outcome, SubQueueType
from partibus.fragment.outbox.commands import Fence
from partibus.fragment.sessions import commands as sessions
from partibus.fragment.transactions.commands import CheckLocks, ReserveNumbers

PORT: Any = object()
DEAD_LETTER = SubQueueType.DEAD_LETTER
COMMANDS: dict[str, Command] = {
    "950302ce00011170019203cf0000010000000000": commands.Renew(PORT, DEAD_LETTER, [3, 1 << 40]),
    "940402ce00011170920405": commands.CancelScheduled(PORT, [4, 5]),
    "980502ce00011170019106c3a17309": commands.ReceiveDeferred(
        PORT, DEAD_LETTER, [6], True, "s", 9
    ),
    "990602ce0001117001070ace00040000a173c3": commands.Peek(
        PORT, DEAD_LETTER, 7, 10, 1 << 18, "s", True
    ),
    "951802ce00011170019108": commands.Pick(PORT, DEAD_LETTER, [8]),
    "970702ce000111700164cf0000020000000000c0": commands.Purge(
        PORT, DEAD_LETTER, 100, 1 << 41, None
    ),
    "950802ce00011170a46e616d65c4027b7d": commands.Question(PORT, "name", b"{}"),
    "930902ce00011170": sessions.FindOldestSession(PORT),
    "950a02ce00011170a17309": sessions.RenewSession(PORT, "s", 9),
    "950b02ce00011170a17309": sessions.GetSessionState(PORT, "s", 9),
    "960c02ce00011170a17309c4057374617465": sessions.SetSessionState(PORT, "s", 9, b"state"),
    "960d02ce00011170c00132": sessions.ListSessions(PORT, None, 1, 50),
    "950f02ce000111700b0c": Fence(PORT, 11, 12),
    "964102ce0001117001910301": CheckLocks(PORT, DEAD_LETTER, [3], Outcome.ABANDON),
    "944202ce0001117003": ReserveNumbers(PORT, 3),
}


@pytest.mark.parametrize(("data", "command"), COMMANDS.items())
def test_a_command_has_these_bytes_and_comes_back_from_them(data: str, command: Command) -> None:
    row = msgspec.msgpack.decode(bytes.fromhex(data))
    decoded = DECODERS[row[0]](row, PORT)
    assert type(decoded) is type(command)
    for sent in (command, decoded):
        encoded = msgspec.msgpack.encode(ENCODERS[type(command)](sent, 2, 70_000))
        assert encoded.hex() == data


@pytest.mark.parametrize("data", COMMANDS)
def test_a_row_with_a_field_too_few_is_refused(data: str) -> None:
    row = msgspec.msgpack.decode(bytes.fromhex(data))
    if len(row) > 3:
        with pytest.raises(IndexError):
            DECODERS[row[0]](row[:-1], PORT)


@pytest.mark.parametrize("data", COMMANDS)
def test_an_enumeration_comes_back_as_one(data: str) -> None:
    row = msgspec.msgpack.decode(bytes.fromhex(data))
    decoded: Any = DECODERS[row[0]](row, PORT)
    assert type(getattr(decoded, "subqueue", DEAD_LETTER)) is SubQueueType
    assert type(getattr(decoded, "outcome", Outcome.ABANDON)) is Outcome
