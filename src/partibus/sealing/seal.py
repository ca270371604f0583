"""Sealing: bytes that only the holder of a key can read, and that nobody can change unnoticed.

Owns the form of a sealed piece and the rule that no nonce is ever used twice with a key:

    12 bytes   salt of the life: random, drawn anew whenever a sealer is made
     8 bytes   number of the piece in this life, from 0
     n bytes   AES-256-GCM of the content, with the tag (16 bytes) behind it

The key of a life is HKDF-SHA-256 of the sealer's key with the salt. Within a life numbers only go
up; another life, whether after a crash or in a restored copy, has another salt and so another key.
"""

import itertools
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES: Final = 32
SALT_BYTES: Final = 12
NUMBER_BYTES: Final = 8
HEAD_BYTES: Final = SALT_BYTES + NUMBER_BYTES
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = HEAD_BYTES + TAG_BYTES

# Lives whose keys are at hand; a store has one for each start since its oldest message.
LIVES_MAX: Final = 256
# NIST SP 800-38D allows 2^32 pieces for a key with such nonces; a new life begins long before.
PIECES_MAX: Final = 1 << 31

_PADDING: Final = bytes(12 - NUMBER_BYTES)
_LIFE: Final = b"partibus life"


class Unreadable(Exception):
    """A piece that was not sealed with this key for this purpose, or was changed."""


def derive(key: bytes, purpose: bytes, salt: bytes | None = None) -> bytes:
    """A key for one purpose."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=purpose).derive(key)


class _Life:
    """A salt, its key, and the numbers that are left; each is given once, to whatever thread."""

    __slots__ = ("cipher", "numbers", "salt")

    def __init__(self, key: bytes) -> None:
        self.salt = os.urandom(SALT_BYTES)
        self.cipher = AESGCM(derive(key, _LIFE, self.salt))
        self.numbers = itertools.count()


class Sealer:
    """Seals and opens with one key; a life begins with it."""

    __slots__ = ("_key", "_life", "_lives")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key
        self._lives: dict[bytes, AESGCM] = {}
        self._life = _Life(key)

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """The content, sealed; `purpose` must be the same when it is opened."""
        life = self._life
        number = next(life.numbers)
        while number >= PIECES_MAX:
            life = self._life = _Life(self._key)
            number = next(life.numbers)
        tail = number.to_bytes(NUMBER_BYTES, "little")
        return life.salt + tail + life.cipher.encrypt(_PADDING + tail, content, purpose)

    def open(self, piece: bytes, purpose: bytes) -> bytes:
        """What was sealed; Unreadable when it was not, or not like this."""
        if len(piece) < OVERHEAD_BYTES:
            raise Unreadable
        nonce = _PADDING + piece[SALT_BYTES:HEAD_BYTES]
        try:
            return self._cipher(piece[:SALT_BYTES]).decrypt(nonce, piece[HEAD_BYTES:], purpose)
        except InvalidTag as error:
            raise Unreadable from error

    def _cipher(self, salt: bytes) -> AESGCM:
        cipher = self._lives.get(salt)
        if cipher is None:
            if len(self._lives) >= LIVES_MAX:
                self._lives.clear()
            cipher = self._lives[salt] = AESGCM(derive(self._key, _LIFE, salt))
        return cipher
