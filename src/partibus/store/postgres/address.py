"""The address of a database as the place of a store.

Owns how such a place is recognised and its name in errors, logs and answers, where no password may
appear. Must never open a connection, so that it can be used without the driver.
"""

from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("postgresql://", "postgres://")


def is_database(place: str) -> bool:
    """Whether the place of a store is in a database."""
    return place.startswith(SCHEMES)


def lane_name(place: str, lane: int) -> str:
    """The name of a lane: its number, the database and the host."""
    return f"lane {lane} of the database {database_name(place)}"


def database_name(place: str) -> str:
    """The name of a database, without user and password."""
    parts = urlsplit(place)
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    return f"{parts.path.strip('/') or 'postgres'} on {hosts}"
