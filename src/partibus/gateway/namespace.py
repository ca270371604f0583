"""The entities of the namespace as the data path sees them.

Owns the look-up of an entity and its fragments by address. Kept up to date by the catalog's change
feed through the node; it must never write the catalog. Called once per link, not per message: all
links of an entity share one `Entity`, which follows its changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change, EntityRecord
from partibus.domain.address import Address, parse_address
from partibus.domain.entity import (
    EntityKind,
    EntitySpec,
    SubscriptionSpec,
    TopicSpec,
    message_bytes_max,
)
from partibus.domain.errors import EntityDisabled, EntityNotFound, InvalidOperation, MessageTooLarge
from partibus.fragment.commands import SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.gateway.tracing import Tracing


@dataclass(eq=False, slots=True)
class Entity:
    """A queue, topic or subscription with its fragments, as links use it."""

    record: EntityRecord
    spec: EntitySpec
    fragments: Sequence[Fragment]
    message_bytes_max: int

    def take_over(self, other: "Entity") -> None:
        """Copy the other's properties, which have changed; the fragments never do."""
        self.record = other.record
        self.spec = other.spec
        self.message_bytes_max = other.message_bytes_max

    def is_in_sessions(self, subqueue: SubQueueType) -> bool:
        """Whether the messages of a subqueue are received in sessions; dead letters never are
        (DLQ-10)."""
        return self.spec.requires_session and subqueue is SubQueueType.MAIN

    @property
    def refuses_unwanted(self) -> bool:
        """Whether each send is answered individually, since no subscription may match (ENT-4)."""
        spec = self.spec
        return isinstance(spec, TopicSpec) and spec.enable_filtering_messages_before_publishing


class Namespace:
    """Addresses to entities."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._fragments: dict[int, Fragment] = {}
        self._entities: dict[int, Entity] = {}
        """The entities that links use, by id."""
        self.profile = catalog.profile
        self.tracing: Tracing | None = None
        """Makes the spans of traced messages; None unless the server exports them."""

    def put_fragment(self, fragment: Fragment) -> None:
        """A fragment is served from now on."""
        self._fragments[fragment.fragment_id] = fragment

    def drop_fragment(self, fragment_id: int) -> None:
        """A fragment was removed."""
        self._fragments.pop(fragment_id, None)

    def fragments(self) -> Iterable[Fragment]:
        """All fragments, wherever they are served."""
        return list(self._fragments.values())

    def follow(self, change: Change) -> None:
        """An entity was changed or deleted; called before its links are updated."""
        before, after = change.before, change.after
        if before is None:
            return
        entity = self._entities.get(before.entity_id)
        if after is None:
            self._entities.pop(before.entity_id, None)
        elif entity is not None:
            entity.take_over(self._make(after))

    def find(self, path: str) -> EntityRecord | None:
        """The current entity of a path, if there is one."""
        return self._catalog.lookup(path)

    def find_subscription(self, name: str) -> str | None:
        """The path of a subscription by its name alone, whatever its topic."""
        wanted = name.lower()
        for record in self._catalog.entities(EntityKind.SUBSCRIPTION):
            if record.path.rpartition("/")[2].lower() == wanted:
                return record.path
        return None

    def record(self, path: str) -> EntityRecord:
        """The current entity of a path; a missing one raises the error clients know."""
        record = self._catalog.lookup(path)
        if record is None:
            raise EntityNotFound.named(path)
        return record

    def resolve(self, address: Address) -> Entity:
        """The entity of an address; a missing one raises the error clients know (ERR-1)."""
        record = self.record(address.entity_path)
        entity = self._entities.get(record.entity_id)
        if entity is None:
            entity = self._entities[record.entity_id] = self._make(record)
        return entity

    def _make(self, record: EntityRecord) -> Entity:
        fragments = [self._fragments[p.fragment_id] for p in record.fragments]
        return Entity(record, record.spec, fragments, self._message_bytes_max(record))

    def _message_bytes_max(self, record: EntityRecord) -> int:
        """The entity's message size limit; a subscription has that of its topic."""
        spec = record.spec
        if isinstance(spec, SubscriptionSpec):
            spec = self._catalog.entity(parse_address(record.path).entity).spec
            assert isinstance(spec, TopicSpec)
        return message_bytes_max(spec, self._catalog.profile)


def too_large(entity: Entity) -> MessageTooLarge:
    """The error for a message that exceeds the entity's limit (MSG-3)."""
    return MessageTooLarge(
        f"The message is larger than the {entity.message_bytes_max} bytes that "
        f"'{entity.record.path}' accepts. Make it smaller, or split the batch."
    )


def require_sendable(entity: Entity, address: Address) -> None:
    """Refuse sends to a subscription (ENT-1), a dead-letter queue (DLQ-2) or a disabled entity
    (STS-2)."""
    if entity.record.kind is EntityKind.SUBSCRIPTION:
        raise InvalidOperation(
            f"Messages cannot be sent to the subscription '{entity.record.path}'; send to its "
            "topic."
        )
    if address.sub_queue:
        raise InvalidOperation(
            "Messages cannot be sent to a dead-letter queue; send to the queue itself."
        )
    if not entity.spec.status.allows_send:
        raise disabled(entity.record.path, "sending")


def require_session_ids(entity: Entity, messages: Sequence[NewMessage]) -> None:
    """Refuse messages without a session where the entity requires one (SES-1)."""
    if entity.spec.requires_session and any(message.session_id is None for message in messages):
        raise InvalidOperation(
            "The SessionId was not set on a message, and it cannot be sent to "
            f"'{entity.record.path}', which requires sessions. Set a SessionId."
        )


def require_no_forwarding(entity: Entity, subqueue: SubQueueType) -> None:
    """Refuse receivers of an entity that forwards; its dead letters may be received (FWD-1)."""
    spec = entity.spec
    if not isinstance(spec, TopicSpec) and spec.forward_to and subqueue is SubQueueType.MAIN:
        raise InvalidOperation(
            "Cannot create a message receiver on an entity with auto-forwarding enabled. "
            f"'{entity.record.path}' forwards to '{spec.forward_to}'; receive from there."
        )


def require_receiver(entity: Entity) -> None:
    """Refuse what only receivers do on a topic, which holds nothing for them (ENT-1)."""
    if entity.record.kind is EntityKind.TOPIC:
        raise InvalidOperation(
            f"Messages cannot be received from the topic '{entity.record.path}'; receive from one "
            "of its subscriptions."
        )


def require_receivable(entity: Entity) -> None:
    """Refuse receives from a disabled entity (STS-2)."""
    if entity.record.kind is EntityKind.TOPIC:
        # Peeking at its scheduled messages needs no receiver (SCH-2, SCH-11).
        return
    if not entity.spec.status.allows_receive:
        raise disabled(entity.record.path, "receiving")


def disabled(path: str, purpose: str) -> EntityDisabled:
    """The error for what an entity's status forbids (STS-2)."""
    return EntityDisabled(
        f"The messaging entity '{path}' is disabled for {purpose}; set its status to Active."
    )
