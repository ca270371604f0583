"""The node, as the administration over HTTP uses it.

Owns the protocols between the paths (`ops.admin` and the modules that it mounts) and the server,
which implements them. It must never know a path or read a request.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from starlette.requests import Request

Answer = dict[str, Any]


class Faults(Protocol):
    """Faults on demand, as this interface uses them."""

    async def set(self, payload: object) -> Answer: ...

    async def list(self) -> Answer: ...

    async def clear(self, key: str | None = None) -> Answer: ...


class NamespaceService(Protocol):
    """Entities and policies, as this interface changes them."""

    async def create(self, body: Answer) -> Answer: ...

    async def update(self, name: str, body: Answer) -> Answer: ...

    async def delete(self, name: str) -> Answer: ...

    async def policies(self, entity: str) -> Answer: ...

    async def put_policy(self, entity: str, name: str, body: Answer) -> Answer: ...

    async def delete_policy(self, entity: str, name: str) -> Answer: ...

    async def regenerate_key(self, entity: str, name: str, body: Answer) -> Answer: ...


class Bulk(Protocol):
    """The bulk path, as this interface uses it; it checks the token itself."""

    async def entity(self, name: str, host: str, token: str | None) -> Answer: ...


class Pipelines(Protocol):
    """Claims and cursors, as this interface uses them."""

    async def claims(self, name: str) -> Answer: ...

    async def release(self, name: str, owner: str, forget: bool) -> Answer: ...

    async def cursors(self, name: str) -> Answer: ...

    async def drop(self, name: str, cursor: str) -> Answer: ...


class Stages(Protocol):
    """Writers and their stages, as this interface uses them."""

    async def stages(self, name: str) -> Answer: ...

    async def drop(self, name: str, writer: str, forget: bool) -> Answer: ...


class ClockService(Protocol):
    """The time of a test server."""

    def show(self) -> Answer: ...

    async def advance(self, body: Answer) -> Answer: ...


class Namespaces(Protocol):
    """The namespaces of a test server."""

    def list(self) -> Answer: ...

    async def create(self, body: Answer) -> Answer: ...

    async def delete(self, name: str) -> Answer: ...


class LiveFeed(Protocol):
    """The live picture, as this interface passes it on."""

    def frames(self) -> AsyncIterator[Answer]: ...


class Backups(Protocol):
    """Backups, as this interface uses them."""

    async def begin(self) -> Answer: ...

    async def file(self, name: str, store: int, file: str) -> tuple[Path, int]: ...

    async def renew(self, name: str) -> None: ...

    async def end(self, name: str) -> Answer: ...


class Cluster(Protocol):
    """A cluster, as this interface uses it."""

    async def status(self) -> Answer: ...

    async def drain(self, node: int, dry_run: bool) -> Answer: ...

    async def resume(self, node: int) -> Answer: ...

    async def rebalance(self, dry_run: bool) -> Answer: ...

    async def evict(self, node: int, force: bool, dry_run: bool) -> Answer: ...


class Connections(Protocol):
    """Connections, as this interface uses them."""

    async def list(self, entity: str | None, after: str | None, limit: int) -> Answer: ...

    async def show(self, name: str) -> Answer: ...

    async def close(self, name: str, reason: str | None) -> Answer: ...


class Events(Protocol):
    """Events, as this interface uses them."""

    def stream(self, last: int = 0) -> AsyncIterator[list[dict[str, Any]]]: ...


class Log(Protocol):
    """The log, as this interface uses it."""

    async def show(self) -> Answer: ...

    async def set_level(self, level: object) -> Answer: ...


class MessageService(Protocol):
    """The node's messages, as this interface uses them."""

    def page_request(self, **fields: Any) -> Any: ...

    async def peek(self, token: str | None, name: str, page: Any) -> Answer: ...

    async def show(self, token: str | None, name: str, subqueue: str, number: int) -> Answer: ...

    async def send(self, token: str | None, name: str, fields: Answer) -> Answer: ...

    async def cancel(self, token: str | None, name: str, numbers: list[int]) -> Answer: ...

    async def delete_deferred(self, token: str | None, name: str, numbers: list[int]) -> Answer: ...

    async def reasons(self, token: str | None, name: str) -> Answer: ...

    async def resubmit(self, token: str | None, name: str, body: Answer) -> Answer: ...

    async def sessions(self, token: str | None, name: str) -> Answer: ...

    async def session_state(self, token: str | None, name: str, session_id: str) -> Answer: ...


class Signals(Protocol):
    """The values, as this page reads them."""

    async def gather(self) -> dict[str, Any]: ...

    async def gather_for_export(self) -> dict[str, Any] | None: ...


class Administration(Protocol):
    """The node, as its operators see it."""

    @property
    def console_mode(self) -> str:
        """Whether the console may change things: on, read-only or off."""
        ...

    @property
    def live_feed(self) -> LiveFeed: ...

    @property
    def messages(self) -> MessageService: ...

    def identity(self, token: str) -> Answer:
        """What a token grants, whatever it is for; Unauthorized when it is not valid."""
        ...

    @property
    def backups(self) -> Backups: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def connections(self) -> Connections: ...

    @property
    def events(self) -> Events: ...

    @property
    def log(self) -> Log: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def clock(self) -> ClockService: ...

    @property
    def namespaces(self) -> Namespaces: ...

    @property
    def reset(self) -> Callable[[], Awaitable[None]]: ...

    @property
    def faults(self) -> Faults: ...

    @property
    def namespace(self) -> NamespaceService: ...

    @property
    def bulk(self) -> Bulk: ...

    @property
    def pipelines(self) -> Pipelines: ...

    @property
    def stages(self) -> Stages: ...

    def authorize(self, token: str | None, path: str) -> str:
        """The caller; raises Unauthorized unless the token is valid for this path."""
        ...

    async def entities(self) -> Answer: ...

    async def page(self, query: Mapping[str, str]) -> Answer: ...

    def defaults(self) -> Answer: ...

    async def try_rules(self, name: str, message: Answer) -> Answer: ...

    async def entity(self, name: str) -> Answer: ...

    async def stores(self) -> Answer: ...

    async def pipeline_overview(self) -> Answer: ...

    async def purge(
        self, name: str, subqueue: str, before_ms: int | None, limit: int | None
    ) -> Answer: ...


Handler = Callable[[Administration, Request], Awaitable[Answer]]
Routes = tuple[tuple[str, str, Handler], ...]
"""Method, path below the prefix, and what answers."""
