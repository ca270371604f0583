"""The data key of a directory, and the user's key that opens it.

Owns the file `encryption.key`: a random data key, sealed with the user's key. Everything else is
sealed with keys that are derived from the data key, so that the user's key can be changed without
touching data. The user's key comes from a file or from what a command prints, and is never
written anywhere. Called by the server's start and by the offline verbs.
"""

import base64
import binascii
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.files.private import write_private
from partibus.sealing.seal import KEY_BYTES, Sealer, Unreadable, derive

KEY_FILE_NAME: Final = "encryption.key"
FORMAT: Final = 1
COMMAND_SECONDS_MAX: Final = 60
KEY_FILE_BYTES_MAX: Final = 4096
_WRAPPING: Final = b"partibus user key"
_PURPOSE: Final = b"partibus data key"
HOW_TO_MAKE: Final = "make one with `openssl rand -hex 32`"


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    cipher: str
    data_key: str


@dataclass(eq=False, repr=False, slots=True)
class DataKey:
    """The key that a directory is encrypted with, and the sealers derived from it."""

    key: bytes

    def store_sealer(self, number: int) -> Sealer:
        """For what a store writes."""
        return Sealer(derive(self.key, b"partibus store %d" % number))

    def catalog_sealer(self) -> Sealer:
        """For the catalog."""
        return Sealer(derive(self.key, b"partibus catalog"))


# --- the user's key ---------------------------------------------------------------------------


def key_from_file(path: Path) -> bytes:
    """The user's key: 32 bytes, as they are, in hexadecimal or in Base64."""
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror}.") from error
    return _parse(content, f"the key file {path}")


def key_from_command(command: str) -> bytes:
    """The user's key, as a command prints it."""
    try:
        done = subprocess.run(  # noqa: S603  # the operator's own command
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"the key command `{command}` did not run: {error}.") from error
    if done.returncode:
        raise ConfigError(
            f"the key command `{command}` failed with exit code {done.returncode}; see its "
            "output on stderr."
        )
    return _parse(done.stdout[:KEY_FILE_BYTES_MAX], f"the key command `{command}`")


def _parse(content: bytes, origin: str) -> bytes:
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    for decode in (bytes.fromhex, lambda word: base64.b64decode(word, validate=True)):
        try:
            key = decode(text.decode("ascii"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    raise ConfigError(
        f"{origin} holds no valid key; expected {KEY_BYTES} bytes, raw, in hexadecimal or in "
        f"Base64: {HOW_TO_MAKE}."
    )


# --- the data key -----------------------------------------------------------------------------


def make_data_key(directory: Path, user_key: bytes) -> DataKey:
    """A new data key for a directory."""
    key = os.urandom(KEY_BYTES)
    _write(directory, key, user_key)
    return DataKey(key)


def open_data_key(directory: Path, user_key: bytes) -> DataKey:
    """The data key of a directory; a wrong key is a ConfigError."""
    return DataKey(_read(directory, user_key))


def change_user_key(directory: Path, old: bytes, new: bytes) -> None:
    """Change the key that opens the directory; the data stays as it is."""
    _write(directory, _read(directory, old), new)


def _write(directory: Path, key: bytes, user_key: bytes) -> None:
    sealed = Sealer(derive(user_key, _WRAPPING)).seal(key, _PURPOSE)
    content = _KeyFile(FORMAT, "AES-256-GCM", base64.b64encode(sealed).decode("ascii"))
    write_private(directory / KEY_FILE_NAME, msgspec.json.encode(content) + b"\n")


def _read(directory: Path, user_key: bytes) -> bytes:
    path = directory / KEY_FILE_NAME
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_KeyFile)
        sealed = base64.b64decode(found.data_key, validate=True)
    except (msgspec.MsgspecError, ValueError, binascii.Error) as error:
        raise StoreCorrupt(
            f"{path} is damaged: {error}. Restore the file from a backup; without it the data "
            "cannot be read."
        ) from error
    if found.format != FORMAT:
        raise ConfigError(f"{path} has format {found.format}; this release reads {FORMAT}.")
    try:
        return Sealer(derive(user_key, _WRAPPING)).open(sealed, _PURPOSE)
    except Unreadable as error:
        raise ConfigError(
            f"the key does not open {path}: give the key with which the directory was encrypted, "
            "or to which `partibus store rekey` has changed it. Nothing was changed."
        ) from error
