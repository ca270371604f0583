"""The names of the kit in one place, loaded together when the first of them is used.

Owns only the list; users find them in `partibus.testing`.
"""

from partibus.testing.kit.attached import TestingServer
from partibus.testing.kit.control import BusRefused
from partibus.testing.kit.expectations import Expected, expect
from partibus.testing.kit.fake_clock import FakeClock
from partibus.testing.kit.fault_injection import Fault, Faults
from partibus.testing.kit.messages import Message
from partibus.testing.kit.namespace import Namespace
from partibus.testing.kit.quick_sdk import quick_sdk
from partibus.testing.kit.server import Server

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
