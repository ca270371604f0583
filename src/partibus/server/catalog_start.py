"""The catalog as a server starts with it: opened, declared, and with a root policy.

Owns what happens to the catalog once per start of the whole server: definitions are applied, the
root policy is made, and entities that cannot be used are named. With one process the node does
it, with several the supervisor, when the stores were found to belong to the catalog and before
any worker serves.
"""

import logging
from pathlib import Path
from typing import Final

from partibus.control.apply import apply_definitions
from partibus.control.catalog import Catalog
from partibus.control.definitions import Definitions
from partibus.control.policies import ROOT_POLICY_NAME, ensure_root_policy
from partibus.domain.clock import Clock
from partibus.server.config import ServeSettings
from partibus.server.data_directory import CATALOG_NAME

_log: Final = logging.getLogger(__name__)


def catalog_file(settings: ServeSettings) -> Path | None:
    """Where the catalog lies; None when it is kept in memory."""
    if settings.memory:
        return None
    return settings.data / CATALOG_NAME


def open_catalog(file: Path | None, settings: ServeSettings, clock: Clock) -> Catalog:
    """The catalog as it is."""
    return Catalog(file, profile=settings.profile, stores=settings.stores, clock=clock)


def declare(catalog: Catalog, settings: ServeSettings, definitions: Definitions | None) -> None:
    """Bring the catalog to what the configuration wants; one without a namespace id gets it."""
    if catalog.identity.namespace() is None:
        with catalog.identify() as identity:
            identity.found()
        _log.info("the catalog of an earlier release was taken over")
    catalog.fix_partitions(None if definitions is None else definitions.partitions)
    declared = definitions is not None and definitions.declares_root_policy
    if definitions is not None:
        apply_definitions(catalog, definitions)
    root = ensure_root_policy(catalog, loopback_only=settings.loopback_only, declared=declared)
    if root.shown_key is not None:
        _log.warning("new key of %s, shown once: %s", ROOT_POLICY_NAME, root.shown_key)


def connection_string(catalog: Catalog, host: str, port: int) -> str:
    """What a client pastes to reach the server."""
    policy = catalog.policy("", ROOT_POLICY_NAME)
    assert policy is not None
    return (
        f"Endpoint=sb://{host}:{port};SharedAccessKeyName={policy.name};"
        f"SharedAccessKey={policy.primary_key};UseDevelopmentEmulator=true;"
    )
