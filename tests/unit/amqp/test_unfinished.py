"""Messages in several frames that do not come to their end, or not yet."""

import pytest

from partibus.amqp.codec.types import UInt
from partibus.amqp.events import LinkFailed, TransferReceived
from partibus.amqp.settings import (
    FRAME_OVERHEAD_BYTES,
    UNFINISHED_MS_MAX,
    UNFINISHED_STEP_BYTES,
)
from partibus.domain import conditions
from support.amqp.engines import RawPeer, frame


@pytest.fixture
def peer() -> RawPeer:
    made = RawPeer().opened()
    made.begun()
    made.attached().max_message_size = 1 << 20
    return made


def piece(size: int, more: bool = True, handle: int = 0) -> bytes:
    return frame(
        1, 0x14, UInt(handle), UInt(handle), b"t", UInt(0), None, more, payload=b"x" * size
    )


def test_a_message_that_does_not_go_on_ends_its_link_in_time(peer: RawPeer) -> None:
    engine = peer.engine
    assert peer.send(piece(100)) == []
    assert engine.next_tick_ms() == UNFINISHED_MS_MAX
    assert engine.tick(UNFINISHED_MS_MAX - 1) == []
    (event,) = engine.tick(UNFINISHED_MS_MAX)
    assert isinstance(event, LinkFailed)
    assert event.error.condition == conditions.MICROSOFT_TIMEOUT
    assert "nothing arrived for 60 s" in event.error.description
    assert engine.unfinished_bytes == 0
    assert engine.tick(2 * UNFINISHED_MS_MAX) == []


def test_a_trickle_of_bytes_is_no_progress(peer: RawPeer) -> None:
    engine = peer.engine
    peer.send(piece(100))
    engine.receive_data(piece(UNFINISHED_STEP_BYTES - 200), UNFINISHED_MS_MAX - 1)
    (event,) = engine.tick(UNFINISHED_MS_MAX)
    assert isinstance(event, LinkFailed)


def test_a_message_that_goes_on_is_waited_for(peer: RawPeer) -> None:
    engine = peer.engine
    for number in range(5):
        engine.receive_data(piece(UNFINISHED_STEP_BYTES), number * (UNFINISHED_MS_MAX - 1))
        assert engine.tick(number * (UNFINISHED_MS_MAX - 1)) == []
    (event,) = engine.receive_data(piece(1, more=False), 5 * (UNFINISHED_MS_MAX - 1))
    assert isinstance(event, TransferReceived)


def test_a_peer_that_was_not_read_from_is_excused(peer: RawPeer) -> None:
    engine = peer.engine
    peer.send(piece(100))
    engine.unfinished.excuse(UNFINISHED_MS_MAX - 1)
    assert engine.tick(UNFINISHED_MS_MAX) == []
    assert engine.next_tick_ms() == 2 * UNFINISHED_MS_MAX - 1


def test_a_message_without_room_is_turned_away_at_its_end(peer: RawPeer) -> None:
    engine = peer.engine
    engine.unfinished.bytes_max = 1_000
    assert peer.send(piece(600)) == []
    assert peer.send(piece(600)) == []
    assert engine.unfinished_bytes == 0
    assert peer.send(piece(600)) == []
    assert engine.unfinished_bytes == 0
    peer.answers()
    assert peer.send(piece(600, more=False)) == []
    codes = {code: fields for _, code, fields in peer.answers()}
    assert conditions.MICROSOFT_SERVER_BUSY in repr(codes[0x15])
    # The link goes on, and takes what there is room for.
    (event,) = peer.send(piece(900, more=False))
    assert isinstance(event, TransferReceived)


def test_the_last_frame_of_a_message_is_never_turned_away(peer: RawPeer) -> None:
    peer.engine.unfinished.bytes_max = 700
    assert peer.send(piece(600)) == []
    (event,) = peer.send(piece(600, more=False))
    assert isinstance(event, TransferReceived) and len(event.payload) == 1_200


def test_many_tiny_frames_are_not_taken_for_a_few_bytes(peer: RawPeer) -> None:
    for _ in range(50):
        peer.send(piece(1))
    assert peer.engine.unfinished_bytes == 50 * (1 + FRAME_OVERHEAD_BYTES)


def test_a_frame_that_is_not_whole_counts_too(peer: RawPeer) -> None:
    peer.send(piece(5_000)[:3_000])
    assert peer.engine.unfinished_bytes == 3_000


def test_the_window_that_sessions_offer_can_be_changed(peer: RawPeer) -> None:
    peer.engine.incoming_window = 8
    (link,) = peer.engine.sessions[1].links.values()
    link.set_credit(3)
    ((_, code, fields),) = peer.answers()
    assert (code, fields[1]) == (0x13, 8)
    for _ in range(4):
        peer.send(piece(1, more=False))
    ((_, code, fields),) = peer.answers()
    assert (code, fields[1]) == (0x13, 8)


def test_a_lost_connection_lets_go_of_what_it_held(peer: RawPeer) -> None:
    peer.send(piece(5_000) + piece(5_000)[:3_000])
    assert peer.engine.unfinished_bytes > 8_000
    held = peer.engine.lost()
    assert sum(map(len, held)) > 5_000
    assert peer.engine.unfinished_bytes == 0
    assert peer.engine.closed and not peer.engine.has_output
