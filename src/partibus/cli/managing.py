"""The management API for verbs: a client for a place, with clear errors.

Owns the opening and the translation of network errors. Called by the verbs that create, show
or change entities, and by those that need to know something about one.
"""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager

from partibus.cli.failures import unreachable
from partibus.cli.place import Place
from partibus.client.atom import AtomClient


@contextmanager
def atom_at(place: Place) -> Iterator[AtomClient]:
    """A client of the management API at a place."""
    with AtomClient(place.connection, place.url, ca_file=place.ca_file) as client:
        try:
            yield client
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(place.url, error) from error
