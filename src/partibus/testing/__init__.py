"""The kit for tests of programs that use the bus, and the benches for tests of the bus itself.

What is named here is for everybody and stays as it is: see docs/guides/testing.md. The modules
beside it (`bus`, `fragment`, `clock` and so on) are benches for those who extend the bus. Nothing
is loaded before it is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partibus.testing.kit.exports import (
        BusRefused,
        Expected,
        FakeClock,
        Fault,
        Faults,
        Message,
        Namespace,
        Server,
        TestingServer,
        expect,
        quick_sdk,
    )

__all__ = [
    "BusRefused",
    "Expected",
    "FakeClock",
    "Fault",
    "Faults",
    "Message",
    "Namespace",
    "Server",
    "TestingServer",
    "expect",
    "quick_sdk",
]


def __getattr__(name: str) -> object:
    """A name of the kit, loaded when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from partibus.testing.kit import exports

    return getattr(exports, name)
