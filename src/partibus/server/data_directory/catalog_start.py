"""The catalog as a server starts with it: opened, declared, and with a root policy.

Owns what happens to the catalog once per start of the whole server: definitions are applied, the
root policy is created, and unusable entities are reported. Called by the node of a single process,
or by the supervisor, after the stores were found to belong to the catalog and before any worker
serves.
"""

import logging
import shlex
from pathlib import Path
from typing import Final

from partibus.control.access.policies import (
    DEVELOPMENT_KEY,
    ROOT_POLICY_NAME,
    AccessPolicy,
    ensure_root_policy,
)
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.sealed import SealedCatalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.definitions import Definitions
from partibus.domain.clock import Clock
from partibus.server.config import ServeSettings
from partibus.server.data_directory.directory import CATALOG_NAME
from partibus.server.live import in_turn

FIRST_START: Final = "<shown by the first start of the cluster>"

_log: Final = logging.getLogger(__name__)


def catalog_file(settings: ServeSettings) -> Path | None:
    """Where the catalog is; None when it is kept in memory."""
    if settings.memory:
        return None
    return settings.data / CATALOG_NAME


def open_catalog(
    file: Path | None,
    settings: ServeSettings,
    clock: Clock,
    encrypted: SealedCatalog | None = None,
) -> Catalog:
    """The catalog as it is."""
    return Catalog(
        file, profile=settings.profile, stores=settings.stores, clock=clock, encrypted=encrypted
    )


def declare(catalog: Catalog, settings: ServeSettings, definitions: Definitions | None) -> bool:
    """Apply the configuration to the catalog, and give it a namespace id if it has none. Returns
    whether the root key may be shown.

    A secret key is shown only by the start that created it or first saw it.
    """
    if catalog.identity.namespace() is None:
        with catalog.identify() as identity:
            if identity.namespace() is None:  # unless another node was first
                identity.found()
        _log.info("the catalog of an earlier release was upgraded")
    known = catalog.policy("", ROOT_POLICY_NAME)
    catalog.fix_lock_prefix()
    catalog.fix_partitions(None if definitions is None else definitions.partitions)
    declared = definitions is not None and definitions.declares_root_policy
    if definitions is not None:
        apply_definitions(catalog, definitions)
    is_public = settings.loopback_only or settings.emulator
    root = ensure_root_policy(catalog, loopback_only=is_public, declared=declared)
    if settings.emulator:
        _warn_of_public_key(root.policy, settings)
    is_new = known is None or known.primary_key != root.policy.primary_key
    if root.has_new_key:
        _log.warning("%s has a new key; only this start shows it, on stdout", ROOT_POLICY_NAME)
    return is_new or root.policy.primary_key == DEVELOPMENT_KEY


async def declare_in_turn(
    catalog: Catalog, settings: ServeSettings, definitions: Definitions | None
) -> bool:
    """The same while other nodes start too, each of which applies its own configuration."""

    async def write() -> bool:
        return declare(catalog, settings, definitions)

    return await in_turn(write)


def _warn_of_public_key(root: AccessPolicy, settings: ServeSettings) -> None:
    """Warn of a publicly known root key; a key of one's own does not suit the emulator's tools."""
    if DEVELOPMENT_KEY not in (root.primary_key, root.secondary_key):
        _log.warning(
            "%s has a key of its own, so %s is not valid here; to use tools that expect it, give"
            " --data another directory",
            root.name,
            DEVELOPMENT_KEY,
        )
    elif not settings.loopback_only:
        _log.warning(
            "emulator mode: the published key %s gives every right to anyone who reaches the ports;"
            " for development and tests only",
            DEVELOPMENT_KEY,
        )


def connection_string(
    catalog: Catalog, data: Path | None, shows_key: bool, host: str, port: int
) -> str:
    """The connection string for clients; without the key, it says how to see that. The catalog of a
    cluster is in no directory (`data` is None): its first start has shown the key."""
    policy = catalog.policy("", ROOT_POLICY_NAME)
    assert policy is not None
    hint = FIRST_START if data is None else f"<run: {show_command(data)}>"
    key = policy.primary_key if shows_key else hint
    return (
        f"Endpoint=sb://{host}:{port};SharedAccessKeyName={policy.name};"
        f"SharedAccessKey={key};UseDevelopmentEmulator=true;"
    )


def show_command(data: Path) -> str:
    """The command that shows the root key, whether the server runs or not."""
    return (
        f"partibus policy show {ROOT_POLICY_NAME} --keys --data {shlex.quote(str(data.resolve()))}"
    )
