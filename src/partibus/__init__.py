"""Partibus: a self-hosted, partitioned message bus for Azure Service Bus clients."""

from typing import Final

__version__: Final = "0.1.0"
