"""What one AMQP connection offers its peer, and its limits.

Owns the settings that travel in open and begin, and every limit against a hostile or
broken peer, each with its reason. Must never be changed after a connection was made.
Read by the engine; built by the server and by the client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partibus.amqp.conditions import RESOURCE_LIMIT_EXCEEDED

# The minimum that any peer must accept [2.8.19]; a smaller max-frame-size is refused.
FRAME_SIZE_MIN: Final = 512

# SASL frames are limited to 512 bytes [5.3.2]; a PLAIN response with a long key from a sloppy
# peer still passes, a flood before authentication does not.
SASL_FRAME_SIZE_MAX: Final = 4_096

# The limit of one frame even when the peer accepts 4 GiB (rhea does): a single large message must
# not occupy the connection, and our output buffer, alone.
FRAME_SIZE_OUT_MAX: Final = 1_048_576

# An attach contains names, addresses, filters and properties, and is kept as long as its link.
ATTACH_BYTES_MAX: Final = 32_768

# 5 000 links x 32 KiB of attach limits what one peer can make us keep by attaching.
LINKS_PER_CONNECTION_MAX: Final = 5_000

# Parts of incomplete messages, over all links of a connection; above the largest message of any
# profile (100 MB), so that one such message always fits.
ASSEMBLY_BYTES_MAX: Final = 268_435_456

# A message of several frames must make progress: this much of it within this time, or its link is
# detached. A peer that needs longer for 16 KiB is gone, or hostile; a 100 MB message on a line of 1
# Mbit/s brings 7 MB in the same time.
UNFINISHED_MS_MAX: Final = 60_000
UNFINISHED_STEP_BYTES: Final = 16_384

# The cost of a frame that waits for the rest of its message, besides its payload: many tiny
# frames must not count as a few bytes.
FRAME_OVERHEAD_BYTES: Final = 96

# The stock Python sender grants itself 10 000 credits on attach and uses them whatever we answer
# (amqp-contract rule 10); it may use them once between two of our flows.
TRANSFERS_WITHOUT_CREDIT_MAX: Final = 10_000

# [2.8.7]: a delivery-tag is up to 32 octets.
DELIVERY_TAG_BYTES_MAX: Final = 32

# rhea keeps unsettled deliveries in a ring as long as its incoming-window, which is 2048 and by
# which we recognise it; with more than 2047 deliveries it drops the connection.
RHEA_WINDOW: Final = 2_048

# For all other clients: enough for any prefetch, and a bound on what waits for a peer that never
# settles.
UNSETTLED_PER_SESSION_MAX: Final = 65_536

# Distinct tails of transfers and dispositions remembered per connection; a peer uses a handful,
# and one that varies them only makes its own frames slower to parse.
TAIL_CACHE_ENTRIES_MAX: Final = 64
TAIL_CACHE_BYTES_MAX: Final = 64

# JS expects traffic every 60 s and asks for it; half of what a peer asks, but never more than 30
# s apart (amqp-contract 2.2) and never a flood for a peer that asks for 1 ms.
HEARTBEAT_MS_MAX: Final = 30_000
HEARTBEAT_MS_MIN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """One side's half of the negotiation; the defaults are those of the cloud service."""

    container_id: str
    hostname: str = ""
    max_frame_size: int = 262_144
    channel_max: int = 4_999
    idle_timeout_ms: int = 240_000
    incoming_window: int = 5_000
    outgoing_window: int = 5_000
    handle_max: int = 1_023
    max_message_size: int = 1_048_576
    sasl_mechanisms: tuple[str, ...] = ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")
    offered_capabilities: tuple[str, ...] = ()
    desired_capabilities: tuple[str, ...] = ()
    properties: Mapping[str, object] = field(default_factory=dict)
    busy_condition: str = RESOURCE_LIMIT_EXCEEDED
    """Reported for a message that there was no memory for; clients retry by this name."""
    stalled_condition: str = RESOURCE_LIMIT_EXCEEDED
    """Reported for a message that was not finished in time."""

    def __post_init__(self) -> None:
        assert self.max_frame_size >= FRAME_SIZE_MIN
        assert 0 <= self.channel_max <= 0xFFFF
        assert 0 <= self.handle_max <= 0xFFFFFFFF
        assert 2 <= self.incoming_window <= 0x7FFFFFFF
        assert 0 < self.max_message_size <= 0xFFFFFFFFFFFFFFFF
