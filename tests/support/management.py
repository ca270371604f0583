"""The management application in this process: requests in, answers out, no socket.

Used by the unit tests of the management API, among them the table of hostile requests.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

from partibus.atom.application import ManagementApplication
from partibus.atom.counts import EntityCounts
from partibus.client.cbs import sas_token
from partibus.control.access.access import AccessControl
from partibus.control.access.policies import ROOT_POLICY_NAME, ensure_root_policy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.limits import SELFHOST, Profile
from partibus.testing.clock import ManualClock
from partibus.testing.local_namespace import LocalNamespace

ROOT: Final = "the root policy's"
HOST: Final = "bus.example:5300"
ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"


def entry(description: str) -> bytes:
    """A description in the envelope that clients put around it; its root needs no namespace."""
    name, _, rest = description.removeprefix("<").partition(">")
    slash = "/" if name.endswith("/") else ""
    opened = f'<{name.rstrip("/")} xmlns="{SERVICE_BUS}"{slash}>{rest}'
    return (
        f'<entry xmlns="{ATOM}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
        f'<content type="application/xml">{opened}</content></entry>'
    ).encode()


def queue(properties: str = "") -> str:
    """A description of a queue with these elements."""
    return f"<QueueDescription>{properties}</QueueDescription>"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def root(self) -> Element:
        root: Element = fromstring(self.body)
        return root

    def value(self, name: str) -> str | None:
        """The text of the first element of that name."""
        found = self.root.find(f".//{{{SERVICE_BUS}}}{name}")
        return None if found is None else found.text or ""


@dataclass
class PresetCounts:
    """Counts that a test has set, by path."""

    by_path: dict[str, EntityCounts] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    async def entity_counts(self, records: Sequence[EntityRecord]) -> dict[int, EntityCounts]:
        self.asked.append([record.path for record in records])
        return {
            record.entity_id: self.by_path[record.path]
            for record in records
            if record.path in self.by_path
        }


class ManagementBench:
    """An application over a catalog in memory."""

    def __init__(self, profile: Profile = SELFHOST) -> None:
        self.clock = ManualClock()
        self.catalog = Catalog(None, profile=profile, clock=self.clock)
        ensure_root_policy(self.catalog, loopback_only=True)
        self.live = LocalNamespace(self.catalog)
        self.counted = PresetCounts()
        self.application = ManagementApplication(
            self.catalog, self.live, AccessControl(self.catalog), self.counted, self.clock
        )

    def token(
        self, uri: str = "", policy: str = ROOT_POLICY_NAME, key: str = "SAS_KEY_VALUE"
    ) -> str:
        expires_s = self.clock.now_ms() // 1000 + 60
        return sas_token(uri or f"https://{HOST}/", policy, key, expires_s)

    async def ask(
        self,
        method: str,
        path: str | bytes,
        body: bytes | Iterable[bytes] | AsyncIterable[bytes] = b"",
        *,
        query: str = "api-version=2021-05",
        headers: Mapping[str, str] | None = None,
        token: str | None = ROOT,
    ) -> Answer:
        """One request; `body` may come in parts, which are counted by whoever made them."""
        raw_path = path.encode() if isinstance(path, str) else path
        given = {"host": HOST} | dict(headers or {})
        if token is not None:
            given["authorization"] = self.token() if token == ROOT else token
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": raw_path.decode("latin-1"),
            "raw_path": raw_path,
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        }
        sent: list[dict[str, Any]] = []
        parts = _parts(body)

        async def receive() -> dict[str, Any]:
            return await anext(parts)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.application(scope, receive, send)  # type: ignore[arg-type]
        start, *rest = sent
        return Answer(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            b"".join(part.get("body", b"") for part in rest),
        )

    async def put(
        self, path: str, description: str, *, update: bool = False, **options: Any
    ) -> Answer:
        headers = {"if-match": "*"} if update else {}
        return await self.ask("PUT", path, entry(description), headers=headers, **options)

    def paths(self) -> list[str]:
        return [record.path for record in self.catalog.entities()]


async def _parts(
    body: bytes | Iterable[bytes] | AsyncIterable[bytes],
) -> AsyncIterator[dict[str, Any]]:
    if isinstance(body, AsyncIterable):
        async for part in body:
            yield {"type": "http.request", "body": part, "more_body": True}
    else:
        for part in [body] if isinstance(body, bytes) else body:
            yield {"type": "http.request", "body": part, "more_body": True}
    yield {"type": "http.request", "body": b"", "more_body": False}
    yield {"type": "http.disconnect"}
