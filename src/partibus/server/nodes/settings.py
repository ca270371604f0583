"""What `serve --cluster` means for the other settings.

Owns the lanes of a cluster as the stores of its nodes, and the refusal of settings that cannot be
combined with a cluster. Must never open anything. Called by `server.config`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import ArgumentError, ConfigError
from partibus.store.postgres.address import SCHEMES, is_database

if TYPE_CHECKING:
    from partibus.server.config import ServeSettings

LANES_PER_DATABASE: Final = 16
"""Enough for a cluster to spread over several nodes, few enough to recover quickly."""


def database(value: object) -> str:
    """The address of the cluster's database."""
    if not isinstance(value, str) or not is_database(value):
        raise ArgumentError(
            f"'{value}' is not the address of a database; it begins with {SCHEMES[0]}."
        )
    return value


def settle(settings: "ServeSettings") -> "ServeSettings":
    """The settings of a node: one store for each lane, spread over the databases in turn."""
    if settings.cluster is None:
        return settings
    _refuse_others(settings)
    databases = settings.store_places or (settings.cluster,)
    directories = [place for place in databases if not is_database(place)]
    if directories:
        raise ConfigError(
            "The stores of a cluster are in databases, which every node must reach: "
            f"'{directories[0]}' does not begin with {SCHEMES[0]}."
        )
    lanes = settings.lanes or LANES_PER_DATABASE * len(databases)
    places = tuple(databases[lane % len(databases)] for lane in range(lanes))
    host = settings.peer_host or settings.host
    return replace(settings, stores=lanes, lanes=lanes, store_places=places, peer_host=host)


def _refuse_others(settings: "ServeSettings") -> None:
    is_encrypted = settings.encryption_key_file or settings.encryption_key_command
    refused = (
        (
            settings.workers > 1,
            "--workers",
            "start a node for each core instead, each with its own --data, --cluster-tls and ports",
        ),
        (settings.memory, "--memory", "leave it out: messages are in the databases"),
        (settings.emulator, "--emulator", "the emulator is one server"),
        (bool(is_encrypted), "an encryption key", "have the databases encrypt their own disks"),
    )
    for is_given, name, way_out in refused:
        if is_given:
            raise ConfigError(f"--cluster cannot be combined with {name}: {way_out}.")
