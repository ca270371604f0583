"""The address of a database as the place of a store.

Owns how such a place is recognised and what it is called in errors, logs and answers, where no
password may appear. Opens no connection, so it can be used where no driver is installed.
"""

from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("postgresql://", "postgres://")


def is_database(place: str) -> bool:
    """Whether the place of a store is in a database."""
    return place.startswith(SCHEMES)


def lane_name(place: str, lane: int) -> str:
    """What a lane is called: its number, the database and the host."""
    return f"lane {lane} of the database {database_name(place)}"


def database_name(place: str) -> str:
    """What a database is called, without user and password."""
    parts = urlsplit(place)
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    return f"{parts.path.strip('/') or 'postgres'} on {hosts}"
