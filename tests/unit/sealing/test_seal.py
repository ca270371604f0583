"""Sealed pieces: opened by who has the key, changed by nobody, and no nonce twice."""

import os
import threading

import pytest

from partibus.sealing import seal
from partibus.sealing.seal import HEAD_BYTES, OVERHEAD_BYTES, Sealer, Unreadable

KEY = os.urandom(32)


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(10_000)])
def test_what_was_sealed_is_opened(content: bytes) -> None:
    piece = Sealer(KEY).seal(content, b"p")
    assert len(piece) == len(content) + OVERHEAD_BYTES
    assert Sealer(KEY).open(piece, b"p") == content


def test_every_changed_byte_is_found() -> None:
    sealer = Sealer(KEY)
    piece = sealer.seal(b"content", b"p")
    for index in range(len(piece)):
        changed = piece[:index] + bytes([piece[index] ^ 1]) + piece[index + 1 :]
        with pytest.raises(Unreadable):
            sealer.open(changed, b"p")
    with pytest.raises(Unreadable):
        sealer.open(piece[:-1], b"p")
    with pytest.raises(Unreadable):
        sealer.open(b"", b"p")


def test_a_piece_is_for_its_purpose_and_its_key() -> None:
    piece = Sealer(KEY).seal(b"content", b"p")
    with pytest.raises(Unreadable):
        Sealer(KEY).open(piece, b"q")
    with pytest.raises(Unreadable):
        Sealer(os.urandom(32)).open(piece, b"p")


def test_no_nonce_comes_twice() -> None:
    """Within a life by its number, between lives by their salt."""
    sealers = [Sealer(KEY) for _ in range(20)]
    heads = [s.seal(b"x", b"p")[:HEAD_BYTES] for s in sealers for _ in range(100)]
    assert len(set(heads)) == len(heads)


def test_a_life_ends_before_its_numbers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "PIECES_MAX", 3)
    sealer = Sealer(KEY)
    pieces = [sealer.seal(b"%d" % n, b"p") for n in range(7)]
    assert len({piece[:12] for piece in pieces}) == 3
    assert [sealer.open(piece, b"p") for piece in pieces] == [b"%d" % n for n in range(7)]


def test_subkeys_beyond_those_at_hand_are_derived_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "SUBKEYS_MAX", 2)
    pieces = [Sealer(KEY).seal(b"%d" % n, b"p") for n in range(5)]
    sealer = Sealer(KEY)
    assert [sealer.open(piece, b"p") for piece in 2 * pieces] == 2 * [b"%d" % n for n in range(5)]
    assert sealer.open(sealer.seal(b"own", b"p"), b"p") == b"own"


def test_threads_never_share_a_number() -> None:
    sealer = Sealer(KEY)
    heads: list[bytes] = []

    def work() -> None:
        heads.extend([sealer.seal(b"x", b"p")[:HEAD_BYTES] for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(heads)) == len(heads) == 8000
