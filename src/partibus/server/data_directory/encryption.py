"""Whether a data directory is encrypted, and with which key: decided before anything is opened.

Owns the refusals: a key that is missing, wrong or superfluous gives one line with the remedy. A
directory without a key gets one when the server is started with `--encryption-key-file` or
`--encryption-key-command`; what was written before stays as it is. Called by the start of the
server, by each worker and by the offline verbs.
"""

import contextlib
import logging
from pathlib import Path
from typing import Final

from partibus.cluster.membership import Membership
from partibus.control.catalog.sealed import SealedCatalog, is_sealed, working_directory
from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.sealing import keys
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import refuse_lost_catalog
from partibus.server.data_directory.directory import CATALOG_NAME, lock_data_directory

_log: Final = logging.getLogger(__name__)


def user_key(settings: ServeSettings) -> bytes | None:
    """The key that the settings name; None when they name none."""
    return _key_of(settings.encryption_key_file, settings.encryption_key_command)


def _key_of(file: Path | None, command: str | None) -> bytes | None:
    if file is not None and command is not None:
        raise ConfigError("give the file of a key or the command that prints it, not both.")
    if file is not None:
        return keys.key_from_file(file)
    return None if command is None else keys.key_from_command(command)


def rekey(settings: ServeSettings, file: Path | None, command: str | None) -> None:
    """Change the key that opens the directory of a stopped server."""
    new = _key_of(file, command)
    if new is None:
        raise ConfigError("give the new key with --new-key-file or --new-key-command.")
    with contextlib.ExitStack() as cleanup:
        lock_data_directory(settings, cleanup)
        old = user_key(settings)
        if data_key_of(settings) is None or old is None:
            raise ConfigError(f"{settings.data} is not encrypted: there is no key to change.")
        keys.change_user_key(settings.data, old, new)


def data_key_of(settings: ServeSettings, *, makes: bool = False) -> keys.DataKey | None:
    """The data key of the directory; None when it is not encrypted. `makes` creates a missing
    one."""
    key = user_key(settings)
    if settings.memory:
        if key is not None:
            raise ConfigError("a server in memory writes nothing: there is nothing to encrypt.")
        return None
    file = settings.data / keys.KEY_FILE_NAME
    if file.exists():
        if key is None:
            raise ConfigError(
                f"{settings.data} is encrypted: give its key with --encryption-key-file or "
                "--encryption-key-command. Nothing was changed."
            )
        return keys.open_data_key(settings.data, key)
    if is_sealed(settings.data / CATALOG_NAME):
        raise StoreCorrupt(
            f"{file} is missing, but {settings.data} is encrypted: put the file back from a "
            "backup; without it nothing can be read. Nothing was changed."
        )
    if key is None:
        return None
    if not makes:
        raise ConfigError(
            f"{settings.data} is not encrypted: leave out the key. A server that is started with "
            "the key encrypts what it writes from then on."
        )
    if (settings.data / CATALOG_NAME).exists():
        _log.warning("%s is encrypted from now on; older messages stay as they are", settings.data)
    return keys.make_data_key(settings.data, key)


def encrypted_catalog(
    data_key: keys.DataKey | None,
    file: Path | None,
    settings: ServeSettings,
    membership: Membership | None,
    cleanup: contextlib.ExitStack,
) -> SealedCatalog | None:
    """The link between an encrypted catalog and its working copy. With several workers the
    supervisor has made it; a single process makes its own."""
    if data_key is None or file is None:
        return None
    if membership is not None and membership.working is not None:
        return SealedCatalog(file, membership.working, data_key.catalog_sealer())
    refuse_lost_catalog(file, settings)
    working = cleanup.enter_context(working_directory(settings.data))
    encrypted = SealedCatalog(file, working, data_key.catalog_sealer())
    encrypted.unseal()
    return encrypted
