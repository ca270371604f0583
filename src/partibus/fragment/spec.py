"""What a fragment must know of its entity: the properties that steer the machine.

A frozen value made from the catalog's entity by the node; the machine never reads the catalog. When
an entity changes, the machine gets a new spec.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentSpec:
    """Entity properties as one fragment applies them (PRP-1)."""

    lock_duration_ms: int
    max_delivery_count: int
    counts_dead_letters: bool = True
    """Whether deliveries of a dead letter are counted (DLV-4)."""
    default_ttl_ms: int = 0
    """Applied when the sender sets none, and a maximum otherwise (TTL-2); 0 = unlimited."""
    dead_letter_on_expiry: bool = False
    size_bytes_max: int = 0
    """Sends are refused above this many stored bytes; 0 = unlimited."""
    duplicate_window_ms: int = 0
    """How long a MessageId is remembered (DUP-1); 0 = duplicates are not detected."""
    is_partitioned: bool = False
    requires_session: bool = False
    """Every message belongs to a session, and is received through it (SES-1)."""
    forward_to: str = ""
    """Where every message is forwarded (FWD-1); empty: nowhere."""
    forward_dead_letters_to: str = ""
    """Where dead letters are forwarded (FWD-5); empty: nowhere."""
    requires_match: bool = False
    """Of a topic: a message that no subscription wants is refused (ENT-4)."""
    path: str = ""
    """The entity's name, for error texts."""


NO_SPEC: Final = FragmentSpec(lock_duration_ms=0, max_delivery_count=0)
"""A state is rebuilt without its entity's properties; the node sets them afterwards."""
