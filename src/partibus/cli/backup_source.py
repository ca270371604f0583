"""A running server as the source of a backup, over HTTP.

Owns the requests: one that captures everything, one for each file, and one that lets the server
delete files again, which is sent in any case. A file is followed by its SHA-256, so that damage in
transit is found. Called by `partibus backup`.
"""

import base64
import binascii
import contextlib
import hashlib
import http.client
from collections.abc import Iterator
from typing import Any, Final

from partibus.backup.making import Description, SourceFile
from partibus.backup.manifest import BACKUP_ID, CATALOG_PLACE, KEY_PLACE
from partibus.cli.failures import CommandFailed
from partibus.cli.place import Place
from partibus.cli.remote import RemoteServer

CHUNK_BYTES: Final = 1 << 20
DIGEST_BYTES: Final = hashlib.sha256().digest_size


class ServerSource:
    """The files of a running server."""

    def __init__(self, place: Place) -> None:
        self._server = RemoteServer(place)
        self._id = ""

    @contextlib.contextmanager
    def described(self) -> Iterator[Description]:
        """Have everything captured, and kept until the end of the block."""
        answer = self._server.ask("POST", "/backups")
        try:
            description = _description(answer)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise CommandFailed(
                f"the backup of {self._server.place.url} cannot be read by this version: {error!r}."
            ) from error
        self._id = description.id
        try:
            yield description
        finally:
            # If the server does not answer, it releases the files by itself after a minute.
            with contextlib.suppress(CommandFailed):
                self._server.ask("DELETE", f"/backups/{self._id}")

    def chunks(self, file: SourceFile) -> Iterator[bytes]:
        """The content of a file."""
        folder, _, name = file.place.partition("/")
        number = folder.removeprefix("store-")
        path = f"/backups/{self._id}/stores/{number}/{name}"
        otherwise = "the server answers {} for a file of the backup."
        with self._server.stream(path, otherwise) as response:
            yield from _checked(response, file)


def _checked(response: http.client.HTTPResponse, file: SourceFile) -> Iterator[bytes]:
    digest = hashlib.sha256()
    left = file.length
    while left:
        chunk = response.read(min(CHUNK_BYTES, left))
        if not chunk:
            raise CommandFailed(f"the server stopped while sending {file.place}; try again.")
        digest.update(chunk)
        left -= len(chunk)
        yield chunk
    if response.read(DIGEST_BYTES + 1) != digest.digest():
        raise CommandFailed(
            f"{file.place} was damaged in transit: its checksum differs; try again."
        )


def _description(answer: dict[str, Any]) -> Description:
    if not BACKUP_ID.fullmatch(answer["id"]):
        raise ValueError(answer["id"])
    description = Description(
        id=answer["id"],
        made_at=answer["made_at"],
        namespace=answer["namespace"],
        generation=answer["generation"],
        is_online=True,
        stores=len(answer["stores"]),
        contents={CATALOG_PLACE: base64.b64decode(answer["catalog"])},
    )
    if answer["encryption_key"] is not None:
        description.contents[KEY_PLACE] = base64.b64decode(answer["encryption_key"])
    for number, store in answer["stores"].items():
        folder = f"store-{int(number)}"
        description.contents[f"{folder}/durable"] = base64.b64decode(store["durable"])
        for name, length, stamp in store["files"]:
            description.files.append(SourceFile(f"{folder}/{name}", int(length), str(stamp)))
    return description
