"""The memory that the process uses for clients, over all connections.

Owns the one account of bytes in transit: sends that are not stored yet, messages that are not
complete yet, deliveries that the client has not read yet. Its level determines the credit and
windows of senders, how much receivers get at a time, and whether a connection may be read. It must
never stop a connection that uses nearly nothing, so settlements and receives go on however full it
is. One for each gateway; a connection keeps its `Share` up to date.
"""

from typing import Final, Protocol

FAIR_BYTES: Final = 64 * 1024
"""A connection that uses less than this may always be read: it is not what fills the memory."""
FRAME_BYTES: Final = 64 * 1024
"""The assumed size of a frame when a window is reduced: what the stock clients use."""
WINDOW_MIN: Final = 8
"""Frames that a session may always send: with fewer, more flow frames are needed."""
MEMORY_BYTES_DEFAULT: Final = 512 * 1024 * 1024
REST_BYTES: Final = 1024 * 1024
"""With less than this in use, the process counts as idle."""
UNFINISHED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Above the maximum message size of any profile, so that a single message always fits."""


class Waiting(Protocol):
    """A connection that is not read because memory is short."""

    def has_room(self) -> None:
        """Memory was freed: check whether it may be read again."""
        ...


class MemoryAccount:
    """The account of one process."""

    __slots__ = (
        "_has_rest",
        "_waiting",
        "limit_bytes",
        "peak_bytes",
        "sender_count",
        "unfinished_bytes",
        "unsent_bytes",
        "unstored_bytes",
    )

    def __init__(self, limit_bytes: int = MEMORY_BYTES_DEFAULT) -> None:
        self.limit_bytes = limit_bytes
        self.unstored_bytes = 0
        """Complete sends that wait for the store: they end by themselves."""
        self.unfinished_bytes = 0
        """Messages and transactions that wait for their client."""
        self.unsent_bytes = 0
        """Deliveries that wait for their client to read."""
        self.sender_count = 0
        """Links on which clients send."""
        self.peak_bytes = 0
        """The highest use since memory was last returned to the system."""
        self._has_rest = False
        self._waiting: dict[Waiting, None] = {}

    @property
    def held_bytes(self) -> int:
        return self.unstored_bytes + self.unfinished_bytes + self.unsent_bytes

    def _unstored_max(self) -> int:
        """What waits for clients leaves less for sends, but never less than a quarter: it may wait
        for long, and must not stop the others."""
        left = self.limit_bytes - self.unfinished_bytes - self.unsent_bytes
        return max(left, self.limit_bytes // 4)

    @property
    def is_full(self) -> bool:
        """Whether senders have to wait until more is stored."""
        return self.unstored_bytes >= self._unstored_max()

    # --- what follows from it -------------------------------------------------------------------

    def credit(self, most: int, message_bytes: int) -> int:
        """How many sends of this size a link may have pending: half of what is left is shared out,
        so that all links together still fit."""
        room = (self._unstored_max() - self.unstored_bytes) // (2 * max(1, self.sender_count))
        return max(1, min(most, room // (message_bytes + 1)))

    def window(self, most: int) -> int:
        """How many frames a session may send before the next flow."""
        room = self._unstored_max() - self.unstored_bytes
        if 2 * room >= self.limit_bytes:
            return most
        return max(WINDOW_MIN, min(most, room // (FRAME_BYTES * max(1, self.sender_count))))

    def unfinished_max(self, share: "Share") -> int:
        """How much the unfinished messages of one connection may use: half of all is for these, and
        a connection with the only ones may finish them whatever the limit."""
        others = self.unfinished_bytes - share.unfinished_bytes
        if not others:
            return UNFINISHED_BYTES_MAX
        return max(0, min(UNFINISHED_BYTES_MAX, self.limit_bytes // 2 - others))

    def pull(self, most: int) -> int:
        """How many bytes a receiving link may demand at a time."""
        if 4 * self.unsent_bytes < self.limit_bytes:
            return most
        return most // 16

    def orphaned(self, byte_count: int) -> None:
        """Count sends whose link is gone before they are stored; negative when they are stored."""
        self.unstored_bytes += byte_count
        self.changed()

    # --- who waits --------------------------------------------------------------------------------

    def wait(self, waiting: Waiting) -> None:
        """Be notified when there is room again."""
        self._waiting[waiting] = None

    def forget(self, waiting: Waiting) -> None:
        """Stop waiting."""
        self._waiting.pop(waiting, None)

    def changed(self) -> None:
        """A share has changed: update the peak, and notify the waiters when there is room again."""
        held = self.held_bytes
        if held > self.peak_bytes:
            self.peak_bytes = held
        if self._waiting and 8 * self.unstored_bytes <= 7 * self._unstored_max():
            waiting, self._waiting = self._waiting, {}
            for one in waiting:
                one.has_room()

    def take_peak(self, least_bytes: int) -> bool:
        """Whether a peak of at least this size is over; if so, the next one begins.

        Returns True once more when nearly nothing is in use: what was still in transit at first is
        free by then too.
        """
        held = self.held_bytes
        if self.peak_bytes >= least_bytes and 4 * held <= self.peak_bytes:
            self.peak_bytes = held
            self._has_rest = True
            return True
        if self._has_rest and held < REST_BYTES:
            self._has_rest = False
            return True
        return False


class Share:
    """The part of one connection."""

    __slots__ = ("account", "unfinished_bytes", "unsent_bytes", "unstored_bytes")

    def __init__(self, account: MemoryAccount) -> None:
        self.account = account
        self.unstored_bytes = 0
        self.unfinished_bytes = 0
        self.unsent_bytes = 0

    def update(self, unstored_bytes: int, unfinished_bytes: int, unsent_bytes: int) -> None:
        """Set what the connection uses now."""
        if (
            unstored_bytes == self.unstored_bytes
            and unfinished_bytes == self.unfinished_bytes
            and unsent_bytes == self.unsent_bytes
        ):
            return
        account = self.account
        account.unstored_bytes += unstored_bytes - self.unstored_bytes
        account.unfinished_bytes += unfinished_bytes - self.unfinished_bytes
        account.unsent_bytes += unsent_bytes - self.unsent_bytes
        self.unstored_bytes = unstored_bytes
        self.unfinished_bytes = unfinished_bytes
        self.unsent_bytes = unsent_bytes
        account.changed()

    @property
    def must_wait(self) -> bool:
        """Whether memory is short and this connection is one of those that fill it."""
        return self.unstored_bytes >= FAIR_BYTES and self.account.is_full
