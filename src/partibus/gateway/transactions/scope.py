"""What a transaction may work on: one top-level entity, and one fragment of it.

Owns the rules of where the work of a transaction may go (TXN-3, TXN-13, SEED-45 to SEED-53): the
first operation pins it to an entity and a fragment, and all others must fit; when that is a send,
the first settlement decides. Other entities may be sent to in cross-entity mode or by send-via
(TXN-4 to TXN-6), whatever store they are in. It collects nothing: a transaction calls it before it
accepts an operation.
"""

from collections.abc import Sequence
from typing import Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.sections import annotation_items, parse_in_order
from partibus.amqp.codec.text import text_of
from partibus.domain.address import path_key
from partibus.domain.annotations import VIA_PARTITION_KEY
from partibus.domain.errors import InvalidOperation, MalformedMessage
from partibus.domain.partition_key import fragment_index
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, key_of
from partibus.gateway.namespace import Entity
from partibus.gateway.transactions.destination import Part, store_of, transfer_destination

_SUBSCRIPTIONS: Final = "/subscriptions/"


class Pin:
    """What a transaction is bound to by its first operation (TXN-19)."""

    __slots__ = (
        "fragment",
        "fragment_count",
        "has_numbers",
        "index",
        "is_firm",
        "key",
        "path",
        "session",
        "store",
        "top",
    )

    def __init__(self, entity: Entity, fragment: Fragment, session: object) -> None:
        self.path = entity.record.path
        self.top = top_level(entity)
        self.fragment = fragment
        self.fragment_count = len(entity.fragments)
        self.index = fragment.index
        self.store = store_of(entity, fragment)
        self.session = session
        """The AMQP session of the first operation: links of the same one are in cross-entity
        mode with it."""
        self.is_firm = False
        """A settlement or a send-via has named the entity; sends alone leave it open which of their
        entities is the transaction's own, since operations may overtake each other."""
        self.key: str | None = None
        """The key of the messages sent to the entity itself, once there is one."""
        self.has_numbers = False
        """Numbers were reserved in its store, so the transaction cannot be moved to another."""


def top_level(entity: Entity) -> str:
    """The queue or topic that an entity is or belongs to, comparable (TXN-3)."""
    return path_key(entity.record.path).partition(_SUBSCRIPTIONS)[0]


class Scope:
    """The scope of one transaction."""

    __slots__ = ("pin",)

    def __init__(self) -> None:
        self.pin: Pin | None = None

    def settle(self, entity: Entity, fragment: Fragment, session: object) -> None:
        """Check a settlement, or another operation on messages of a fragment."""
        pin = self._pinned(entity, fragment, session)
        if top_level(entity) != pin.top:
            pin = self._moved(pin, entity, fragment, session)
        _require_same_fragment(pin, fragment, "The settled message")
        pin.is_firm = True

    def _moved(self, pin: Pin, entity: Entity, fragment: Fragment, session: object) -> Pin:
        """The entity of a first settlement is the transaction's own; the entities of earlier sends
        are then other entities."""
        if pin.is_firm or session is not pin.session:
            raise InvalidOperation(
                f"{_spans(pin, entity)} It can settle on one entity only, but send to others."
            )
        if pin.has_numbers and store_of(entity, fragment) != pin.store:
            raise _number_elsewhere(pin.path, entity.record.path)
        self.pin = Pin(entity, fragment, session)
        return self.pin

    def number(self, parts: Sequence[Part]) -> None:
        """Numbers are to be reserved for these messages, in the transaction's own store."""
        pin = self.pin
        assert pin is not None
        for part in parts:
            if part.store != pin.store:
                raise _number_elsewhere(part.path, pin.path)
        pin.has_numbers = True

    def keeper(self, part: Part) -> tuple[Fragment, str]:
        """The fragment that would store the messages at a commit now, and its entity."""
        pin = self.pin
        assert pin is not None
        if part.store == pin.store:
            return part.fragment, part.path
        return pin.fragment, pin.path

    def send(
        self,
        entity: Entity,
        via: Entity | None,
        session: object,
        messages: list[NewMessage],
        payloads: Sequence[bytes],
        start: int,
    ) -> list[Part]:
        """The messages by the fragments that take them; `via` is the link's transfer entity."""
        pin = self.pin
        if via is not None and top_level(via) != top_level(entity):
            return self._send_via(entity, via, session, messages, payloads, start)
        if pin is None or top_level(entity) == pin.top:
            return [Part(entity, self._own_fragment(entity, session, messages), messages)]
        if session is not pin.session:
            raise InvalidOperation(
                f"{_spans(pin, entity)} Send via '{pin.path}' (link property "
                "com.microsoft:transfer-destination-address), or over a link of the same AMQP "
                "session (cross-entity transactions)."
            )
        for payload in payloads:
            _require_via_key(pin, _via_key(payload))
        return _destinations(pin, entity, messages, start)

    def _own_fragment(
        self, entity: Entity, session: object, messages: list[NewMessage]
    ) -> Fragment:
        """The one fragment of the transaction's entity that its messages go to."""
        if len(entity.fragments) == 1:
            pin = self._pinned(entity, entity.fragments[0], session)
            return entity.fragments[0]
        keys = dict.fromkeys([key_of(message) for message in messages])
        for key in keys:
            if key is None:
                raise _keyless(entity)
            fragment = entity.fragments[fragment_index(key, len(entity.fragments))]
            pin = self._pinned(entity, fragment, session)
            if pin.key is not None and pin.key != key:
                raise InvalidOperation(
                    f"All messages that a transaction sends to the partitioned '{pin.path}' "
                    "must have the same SessionId or PartitionKey (or MessageId, where "
                    f"duplicates are detected); this one has '{pin.key}' and '{key}'."
                )
            _require_same_fragment(pin, fragment, f"A message with the key '{key}'")
            pin.key = key
        return entity.fragments[pin.index]

    def _send_via(
        self,
        entity: Entity,
        via: Entity,
        session: object,
        messages: list[NewMessage],
        payloads: Sequence[bytes],
        start: int,
    ) -> list[Part]:
        """Messages for one entity over a link to another, the transfer entity (TXN-6)."""
        for payload in payloads:
            key = _via_key(payload)
            if self.pin is None:
                self._pinned(via, _via_fragment(via, key), session)
            pin = self.pin
            assert pin is not None
            if top_level(via) != pin.top:
                raise InvalidOperation(f"{_spans(pin, via)} Send via '{pin.path}'.")
            _require_via_key(pin, key)
            pin.is_firm = True
        assert self.pin is not None
        return _destinations(self.pin, entity, messages, start)

    def _pinned(self, entity: Entity, fragment: Fragment, session: object) -> Pin:
        if self.pin is None:
            self.pin = Pin(entity, fragment, session)
        return self.pin


def _destinations(pin: Pin, entity: Entity, messages: list[NewMessage], start: int) -> list[Part]:
    """The messages for another entity, by fragment."""
    groups: dict[int, list[NewMessage]] = {}
    for message in messages:
        fragment = transfer_destination(pin.store, entity, key_of(message), start)
        groups.setdefault(fragment.index, []).append(message)
    return [Part(entity, entity.fragments[index], group) for index, group in groups.items()]


def _require_same_fragment(pin: Pin, fragment: Fragment, what: str) -> None:
    if fragment.index != pin.index:
        raise InvalidOperation(
            f"All work of a transaction on the partitioned '{pin.path}' must be in one "
            f"partition (TXN-13). {what} is in partition {fragment.index}, but the work before it "
            f"is in partition {pin.index}. Use the same key for all of it."
        )


def _via_fragment(via: Entity, key: str | None) -> Fragment:
    """The fragment of the transfer entity that a first message passes through."""
    if len(via.fragments) == 1:
        return via.fragments[0]
    if key is None:
        raise InvalidOperation(
            f"A message that is sent in a transaction via the partitioned '{via.record.path}' "
            "needs a ViaPartitionKey. Set one, or settle a message of the partition first."
        )
    return via.fragments[fragment_index(key, len(via.fragments))]


def _require_via_key(pin: Pin, key: str | None) -> None:
    """A ViaPartitionKey must select the partition that the transaction is in (TXN-13)."""
    if key is None or pin.fragment_count == 1:
        return
    index = fragment_index(key, pin.fragment_count)
    if index != pin.index:
        raise InvalidOperation(
            f"The ViaPartitionKey '{key}' selects partition {index} of '{pin.path}', but the "
            f"transaction is in partition {pin.index}. Use the same key as before."
        )


def _via_key(payload: bytes) -> str | None:
    if VIA_PARTITION_KEY.encode() not in payload:
        return None
    try:
        _, sections = parse_in_order(payload)
        return text_of(annotation_items(sections).get(VIA_PARTITION_KEY))
    except DecodeError as cause:
        raise MalformedMessage(f"The message is not well-formed AMQP: {cause}.") from cause


def _keyless(entity: Entity) -> InvalidOperation:
    id_text = (
        ", MessageId"
        if entity.spec.requires_duplicate_detection
        else " (a MessageId counts only where duplicates are detected)"
    )
    return InvalidOperation(
        f"A message that is sent in a transaction to the partitioned '{entity.record.path}' "
        f"must have a SessionId or PartitionKey{id_text}. Set one."
    )


def _number_elsewhere(path: str, own_path: str) -> InvalidOperation:
    return InvalidOperation(
        f"The sequence number of a message that is scheduled in '{path}' is not known before "
        f"the transaction on '{own_path}' ends: the two are in different stores. Send it with a "
        "ScheduledEnqueueTime instead of scheduling it, or schedule it outside of the transaction."
    )


def _spans(pin: Pin, entity: Entity) -> str:
    return (
        "Transactions cannot span multiple top-level entities: this one works on "
        f"'{pin.path}', and '{entity.record.path}' is another."
    )
