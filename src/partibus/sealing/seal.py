"""Sealing: bytes that only the holder of a key can read, and that nobody can change unnoticed.

Owns the form of a sealed piece and the rule that no nonce is ever used twice with a key:

    12 bytes   salt of the subkey: random, drawn whenever a sealer is made
     8 bytes   number of the piece under this subkey, from 0
     n bytes   AES-256-GCM of the content, with the tag (16 bytes) behind it

A subkey is HKDF-SHA-256 of the sealer's key with the salt. Under one subkey numbers only go up;
another sealer, whether after a crash or in a restored copy, has another salt and so another subkey.
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

# Subkeys that are kept at hand; a store has one for each start since its oldest message.
SUBKEYS_MAX: Final = 256
# NIST SP 800-38D allows 2^32 pieces for a key with such nonces; a new subkey is drawn long before.
PIECES_MAX: Final = 1 << 31

_PADDING: Final = bytes(12 - NUMBER_BYTES)
_SUBKEY: Final = b"partibus life"


class Unreadable(Exception):
    """A piece that was not sealed with this key for this purpose, or was changed."""


def derive(key: bytes, purpose: bytes, salt: bytes | None = None) -> bytes:
    """A key for one purpose."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=purpose).derive(key)


class _Subkey:
    """A salt, its key, and the numbers that are left; each is given once, to whatever thread."""

    __slots__ = ("cipher", "numbers", "salt")

    def __init__(self, key: bytes) -> None:
        self.salt = os.urandom(SALT_BYTES)
        self.cipher = AESGCM(derive(key, _SUBKEY, self.salt))
        self.numbers = itertools.count()


class Sealer:
    """Seals and opens with one key; it begins with a new subkey."""

    __slots__ = ("_key", "_subkey", "_subkeys")

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key
        self._subkeys: dict[bytes, AESGCM] = {}
        self._subkey = _Subkey(key)

    def seal(self, content: bytes, purpose: bytes) -> bytes:
        """The content, sealed; `purpose` must be the same when it is opened."""
        subkey = self._subkey
        number = next(subkey.numbers)
        while number >= PIECES_MAX:
            subkey = self._subkey = _Subkey(self._key)
            number = next(subkey.numbers)
        tail = number.to_bytes(NUMBER_BYTES, "little")
        return subkey.salt + tail + subkey.cipher.encrypt(_PADDING + tail, content, purpose)

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
        cipher = self._subkeys.get(salt)
        if cipher is None:
            if len(self._subkeys) >= SUBKEYS_MAX:
                self._subkeys.clear()
            cipher = self._subkeys[salt] = AESGCM(derive(self._key, _SUBKEY, salt))
        return cipher
