"""The listener's end of a connection, as the gateway sees it.

Owns only the `Wire` protocol: writing, closing, and whether the socket is read. Implemented by the
listener, and by wrappers between it and the gateway.
"""

from typing import Protocol


class Wire(Protocol):
    """The listener's end of a connection."""

    peer: str
    secure: bool
    is_websocket: bool

    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Close after everything written is sent."""
        ...

    def linger(self) -> None:
        """The same, while the client may still be sending: it must still get what was written."""
        ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...
