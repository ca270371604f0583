"""Backups of a running server over HTTP.

Owns the paths and the form of a transferred file:

    POST   /$partibus/backups                       capture everything; answers what to read
    GET    /$partibus/backups/ID/stores/N/FILE      a file, followed by its SHA-256
    DELETE /$partibus/backups/ID                    the files need no longer be kept

The node decides what is captured, and how long it is kept. Mounted by `ops.admin`.
"""

import asyncio
import hashlib
import os
import time
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import ArgumentError, StoreUnavailable
from partibus.http.headers import FRESH
from partibus.ops.admin.administration import Administration, Backups, Routes
from partibus.ops.admin.forms import answering, id_of

CHUNK_BYTES: Final = 1 << 20
STALL_S_MAX: Final = 60.0
"""A reader that reads nothing for this long is gone."""
RENEW_S: Final = 10.0
"""How often the transfer of a long file renews the time limit."""


BACKUP_ROUTES: Final[Routes] = (
    ("POST", "/backups", lambda node, _: node.backups.begin()),
    ("DELETE", "/backups/{id}", lambda node, request: node.backups.end(id_of(request))),
)


def file_route(node: Administration) -> Route:
    """The route that serves files."""

    @answering
    async def endpoint(request: Request) -> Response:
        node.authorize(request.headers.get("authorization"), request.scope["path"])
        name, store, file = (request.path_params[key] for key in ("id", "store", "file"))
        if not store.isdigit():
            raise ArgumentError(f"'{store}' is not the number of a store.")
        path, length = await node.backups.file(name, int(store), file)
        return _FileResponse(node.backups, name, _open(path, int(store)), length)

    return Route(ADMINISTRATION + "/backups/{id}/stores/{store}/{file}", endpoint, methods=["GET"])


def _open(path: Path, store: int) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        # Clients get numbers, never paths.
        raise StoreUnavailable(
            f"A file of store {store} cannot be read: {error.strerror}. Begin the backup again."
        ) from error


class _FileResponse(Response):
    """A file up to a length, then the SHA-256 of what was sent; a damaged one ends early."""

    def __init__(self, backups: Backups, name: str, fd: int, length: int) -> None:
        self._backups = backups
        self._name = name
        self._fd = fd
        self._length = length
        digest_bytes = hashlib.sha256().digest_size
        headers = FRESH | {"content-length": str(length + digest_bytes)}
        super().__init__(None, 200, headers, "application/octet-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read in a thread, send as fast as the reader reads."""
        try:
            await self._send(send)
        finally:
            os.close(self._fd)

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        digest = hashlib.sha256()
        offset, renewed_at = 0, time.monotonic()
        while offset < self._length:
            wanted = min(CHUNK_BYTES, self._length - offset)
            data = await asyncio.to_thread(self._read, wanted, offset, digest)
            if not data:
                return  # shorter than before: the connection ends before the length is reached
            offset += len(data)
            await _push(send, data, is_last=False)
            if time.monotonic() - renewed_at > RENEW_S:
                await self._backups.renew(self._name)
                renewed_at = time.monotonic()
        await _push(send, digest.digest(), is_last=True)

    def _read(self, length: int, offset: int, digest: Any) -> bytes:
        data = os.pread(self._fd, length, offset)
        digest.update(data)
        return data


async def _push(send: Send, data: bytes, *, is_last: bool) -> None:
    async with asyncio.timeout(STALL_S_MAX):
        await send({"type": "http.response.body", "body": data, "more_body": not is_last})
