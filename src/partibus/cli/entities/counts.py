"""Facts about entities for verbs, from Partibus or from the vendor's cloud.

Owns the choice of the source: our own administration reports more and is tried first, the cloud has
only the management API. Called by `dlq` and by shell completion.
"""

from collections.abc import Iterator

from partibus.cli.failures import CommandFailed, say
from partibus.cli.managing import atom_at
from partibus.cli.place import Place
from partibus.cli.remote import RemoteServer
from partibus.client.errors import AtomError
from partibus.domain.address import subscription_path
from partibus.server.failure import EXIT_USAGE


def dead_letter_counts(place: Place) -> Iterator[tuple[str, int]]:
    """Every entity that can have dead letters, and how many it has."""
    if not place.connection.is_cloud:
        for entity in RemoteServer(place).ask("GET", "/entities")["entities"]:
            yield entity["name"], entity["totals"]["dead_letter"]
        return
    with atom_at(place) as atom:
        for queue in atom.list("queue"):
            yield queue["name"], queue["counts"]["dead_letter"]
        for topic in list(atom.list("topic")):
            for found in atom.list("subscription", topic["name"]):
                path = subscription_path(topic["name"], found["name"])
                yield path, found["counts"]["dead_letter"]


def refuse_duplicates_at_risk(place: Place, path: str) -> None:
    """Refuse an entity that would drop a message with an id that it remembers (DUP-1)."""
    try:
        with atom_at(place) as atom:
            found = atom.get("queue", path)
    except AtomError as error:
        if error.status in (401, 403):
            say(f"this policy cannot show whether {path} detects duplicates.")
        return
    if found.get("requires_duplicate_detection"):
        raise CommandFailed(
            f"{path} detects duplicates and would drop messages whose ids it remembers: give "
            "--new-id for new message ids, or --keep-id to keep them anyway.",
            EXIT_USAGE,
        )
