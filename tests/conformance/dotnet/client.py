"""A client that puts on the wire what Azure.Messaging.ServiceBus 7.21 for .NET does.

Built on the project's own AMQP engine: the SASL mechanism, the settings of open and begin, the
claims, the names, addresses, settle modes, properties and filters of its links, the envelope of
its batches and its requests are those of the .NET client; the engine only carries them. Nothing
here knows the bus from inside.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import (
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_binary,
    encode_described_list,
    encode_value,
)
from partibus.amqp.codec.sections import (
    AMQP_VALUE,
    MessageProperties,
    decode_application_properties,
    encode_application_properties,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.types import Described, Symbol, UInt, ULong
from partibus.amqp.delivery import Accepted, Declared, transactional_state
from partibus.amqp.session import Session
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_coordinator, encode_source, encode_target
from partibus.client.cbs import sas_token
from partibus.client.connection import BusClient
from partibus.client.links import LinkOwner, ReceivedMessage, Receiver, Sender
from partibus.client.message import BATCH_FORMAT, IncomingMessage, OutgoingMessage, encode_body
from partibus.client.transactions import AnsweredSender, TransactedReceiver
from partibus.domain.clock import SystemClock
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

TIMEOUT = Symbol("com.microsoft:timeout")
ENTITY_TYPE = Symbol("com.microsoft:entity-type")
SESSION_FILTER = Symbol("com.microsoft:session-filter")
NON_EXCLUSIVE_FILTER = Symbol("com.microsoft:non-exclusive-session-filter:list")
NON_EXCLUSIVE_CODE = ULong(0x137000000E)
LOCKED_UNTIL = "com.microsoft:locked-until-utc"
TRY_TIMEOUT_MS = 60_000
UNLIMITED = 0x7FFF_FFFF
_VALUE = bytes((0x00, 0x53, AMQP_VALUE))


class SessionReceiver:
    """What the .NET client keeps of the attach reply to a session receiver."""

    def __init__(self, receiver: Receiver, is_exclusive: bool) -> None:
        self.receiver = receiver
        link = receiver.usable()
        assert link.source is not None
        self.locked_until_ticks = link.properties[LOCKED_UNTIL]
        assert isinstance(self.locked_until_ticks, int)
        self.lock_token: uuid.UUID | None = None
        if is_exclusive:
            session_id = link.source.filters[str(SESSION_FILTER)]
        else:
            answer = link.source.filters[str(NON_EXCLUSIVE_FILTER)]
            assert isinstance(answer, Described) and isinstance(answer.value, list)
            assert answer.descriptor == NON_EXCLUSIVE_CODE
            session_id, token = answer.value
            # Without a token the client says that the endpoint does not have the feature.
            assert isinstance(token, uuid.UUID)
            self.lock_token = token
        assert isinstance(session_id, str)
        self.session_id = str(session_id)


class Management:
    """The pair of request and response links of one entity."""

    def __init__(self, requests: Sender, answers: Receiver, reply_to: str) -> None:
        self._requests = requests
        self._answers = answers
        self._reply_to = reply_to

    async def ask(
        self,
        operation: str,
        body: Mapping[str, object],
        *,
        link: LinkOwner | None = None,
        is_plain: bool = False,
    ) -> tuple[int, dict[str, object], str | None]:
        """Status, body and error condition, read by the types that the client casts to."""
        application: dict[str, object] = {"operation": operation if is_plain else _full(operation)}
        application["com.microsoft:server-timeout"] = UInt(TRY_TIMEOUT_MS)
        if link is not None:
            application["associated-link-name"] = link.usable().name
        properties = MessageProperties(message_id=str(uuid.uuid4()), reply_to=self._reply_to)
        payload = encode_properties(properties) + encode_application_properties(application)
        await self._requests.send(payload + _VALUE + encode_value(dict(body)))
        (answer,) = await self._answers.receive()
        sections = parse_sections(answer.payload)
        said = decode_application_properties(answer.payload, sections)
        status = said["statusCode"]
        assert type(status) is int or type(status).__name__ == "Int", "cast to Int32 by the client"
        condition = said.get("errorCondition")
        assert condition is None or isinstance(condition, Symbol), "cast to a symbol by the client"
        value = None
        if sections.body_offset < len(answer.payload):
            value, _ = decode_value(answer.payload, sections.body_offset + 3, len(answer.payload))
        body_map = {str(key): item for key, item in value.items()} if value else {}
        return int(str(status)), body_map, None if condition is None else str(condition)


class DotNetClient:
    """One ServiceBusClient: its connection, with links in sessions of their own."""

    def __init__(self, client: BusClient, server: ServerProcess, cross_entity: bool) -> None:
        self._client = client
        self._endpoint = f"sb://localhost:{server.ready.amqp_port}"
        self._container = client.engine.settings.container_id
        self._count = 0
        self._cbs: tuple[Sender, Receiver, str] | None = None
        self._single: Session | None = client.engine.begin() if cross_entity else None
        """The one session of all entity links, where transactions reach over entities."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, server: ServerProcess, *, cross_entity: bool = False
    ) -> AsyncIterator["DotNetClient"]:
        settings = ConnectionSettings(
            container_id=f"ServiceBus-{uuid.uuid4()}",
            hostname="localhost",
            max_frame_size=65_536,
            idle_timeout_ms=60_000,
            incoming_window=UNLIMITED,
            properties={
                Symbol("product"): "azsdk-net-Messaging.ServiceBus",
                Symbol("version"): "7.21.0",
                Symbol("user-agent"): "azsdk-net-Messaging.ServiceBus/7.21.0",
            },
        )
        client = _MssbcbsClient(settings, SystemClock())
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: client, "localhost", server.ready.amqp_port)
        try:
            await client._open(None, None)
            yield cls(client, server, cross_entity)
        finally:
            await client.close()

    # --- claims -------------------------------------------------------------------------------

    async def _authorize(self, path: str) -> None:
        """put-token over one pair of links to $cbs, which stays open."""
        if self._cbs is None:
            self._cbs = await self._pair("$cbs", {})
        requests, answers, reply_to = self._cbs
        audience = f"{self._endpoint}/{path}"
        token = sas_token(audience, ROOT_POLICY, ROOT_KEY, int(time.time()) + 1200)
        application = {
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": audience,
        }
        properties = MessageProperties(message_id=str(uuid.uuid4()), reply_to=reply_to)
        payload = encode_properties(properties) + encode_application_properties(application)
        await requests.send(payload + _VALUE + encode_value(token))
        (answer,) = await answers.receive()
        said = decode_application_properties(answer.payload, parse_sections(answer.payload))
        assert said["status-code"] in (200, 202), said

    # --- links --------------------------------------------------------------------------------

    def _session(self) -> Session:
        return self._single or self._client.engine.begin()

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{self._container};1:{self._count}:{self._count + 1}{kind}"

    async def _attach(
        self, owner: LinkOwner, session: Session, name: str, **fields: object
    ) -> None:
        link = session.attach(name, **fields)  # type: ignore[arg-type]
        link.context = session.context = owner
        self._client._owners[owner] = None
        while owner.link is None:
            await owner.moved()

    async def _pair(
        self, node: str, properties: Mapping[str, object]
    ) -> tuple[Sender, Receiver, str]:
        """A RequestResponseAmqpLink: two links of one session, joined by a made-up address."""
        session, reply_to = self._client.engine.begin(), str(uuid.uuid4())
        requests, answers = Sender(self._client.flush), Receiver(self._client.flush, 50)
        base = self._name(":")
        await self._attach(
            requests,
            session,
            f"{base}sender",
            is_sender=True,
            source=encode_source(reply_to),
            target=encode_target(node),
            properties=properties,
        )
        await self._attach(
            answers,
            session,
            f"{base}receiver",
            is_sender=False,
            source=encode_source(node),
            target=encode_target(reply_to),
            properties=properties,
        )
        return requests, answers, reply_to

    async def sender(self, path: str) -> AnsweredSender:
        await self._authorize(path)
        sender = AnsweredSender(self._client.flush)
        session = self._session()
        previous = session.context
        await self._attach(
            sender,
            session,
            self._name(""),
            is_sender=True,
            source=encode_source(str(uuid.uuid4())),
            target=encode_target(f"/{path}"),
            properties={TIMEOUT: UInt(TRY_TIMEOUT_MS)},
        )
        if self._single is not None and isinstance(previous, Receiver):
            session.context = previous
        return sender

    async def receiver(
        self,
        path: str,
        *,
        deletes: bool = False,
        filters: dict[str, object] | None = None,
        timeout_ms: int | None = None,
    ) -> TransactedReceiver:
        await self._authorize(path)
        receiver = TransactedReceiver(self._client.flush)
        properties: dict[str, object] = {}
        if timeout_ms is not None:
            properties[TIMEOUT] = UInt(timeout_ms)
        await self._attach(
            receiver,
            self._session(),
            self._name(f":source(address:/{path},filter:[])"),
            is_sender=False,
            source=encode_source(f"/{path}", filters),
            target=encode_target(str(uuid.uuid4())),
            snd_settle_mode=1 if deletes else 0,
            rcv_settle_mode=0 if deletes else 1,
            properties=properties,
        )
        return receiver

    async def session_receiver(
        self,
        path: str,
        session_id: str | None = None,
        *,
        is_exclusive: bool = True,
        lock_token: uuid.UUID | None = None,
        timeout_ms: int = TRY_TIMEOUT_MS,
    ) -> SessionReceiver:
        """AcceptSession and AcceptNextSession; the two filters exclude each other."""
        filters: dict[str, object] = {SESSION_FILTER: session_id}
        if not is_exclusive:
            asked = Described(NON_EXCLUSIVE_CODE, [session_id, lock_token])
            filters = {NON_EXCLUSIVE_FILTER: asked}
        receiver = await self.receiver(path, filters=filters, timeout_ms=timeout_ms)
        return SessionReceiver(receiver, is_exclusive)

    async def management(self, path: str) -> Management:
        node = f"{path}/$management"
        await self._authorize(node)
        properties = {TIMEOUT: UInt(TRY_TIMEOUT_MS), ENTITY_TYPE: "entity-mgmt"}
        return Management(*await self._pair(node, properties))

    # --- transactions -------------------------------------------------------------------------

    async def controller(self) -> "Controller":
        control = AnsweredSender(self._client.flush)
        await self._attach(
            control,
            self._client.engine.begin(),
            self._name(":controller"),
            is_sender=True,
            source=encode_source(None),
            target=encode_coordinator(),
        )
        return Controller(control)


class Controller:
    """The control link of a connection's transactions."""

    def __init__(self, control: AnsweredSender) -> None:
        self._control = control

    async def declare(self) -> bytes:
        answer = await self._control.put(_VALUE + encode_described_list(0x31, [ENCODED_NULL]))
        await self._control.answered()
        assert isinstance(answer.state, Declared)
        return answer.state.txn_id

    async def discharge(self, txn_id: bytes, *, fail: bool = False) -> None:
        fields = [encode_binary(txn_id), ENCODED_TRUE if fail else bytes((0x42,))]
        answer = await self._control.put(_VALUE + encode_described_list(0x32, fields))
        await self._control.answered()
        assert isinstance(answer.state, Accepted), answer.state


class _MssbcbsClient(BusClient):
    """Anonymous under the name that the .NET client gives it."""

    async def _open(self, user: str | None, password: str | None) -> None:
        self.engine._handshake.start_sasl("MSSBCBS", b"")
        self.engine.open()
        while self.engine.remote_open is None:
            await self._connection_moved.moved()


def batch(messages: Sequence[OutgoingMessage]) -> bytes:
    """The envelope of a batch: properties of the first message, a data section for each."""
    first = messages[0]
    head = MessageProperties(message_id=first.message_id, group_id=first.session_id)
    parts = [encode_body(message.encode(), "data") for message in messages]
    return encode_properties(head) + b"".join(parts)


async def send_batch(sender: Sender, *messages: OutgoingMessage) -> None:
    await sender.send(batch(messages), BATCH_FORMAT)


def lock_token(message: ReceivedMessage) -> uuid.UUID:
    """The delivery tag is a Guid in the byte order of .NET."""
    return uuid.UUID(bytes_le=message.tag)


def text(message: ReceivedMessage) -> object:
    return IncomingMessage(message.payload).body()[1]


def in_transaction(txn_id: bytes) -> bytes:
    return transactional_state(txn_id)


def _full(operation: str) -> str:
    return f"com.microsoft:{operation}"
