"""A server for test suites: what the flag `--testing` means, and where it is refused.

Owns the settings that it implies, the refusal to combine it, or fake time alone, with durable
stores, and the reset: a namespace that a test may empty, and a clock that a test may set, must
never be on a server that people rely on. Called by `server.config` and the node.
"""

from typing import TYPE_CHECKING, Final

from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.definitions import Definitions
from partibus.control.live import LiveNamespace
from partibus.domain.errors import ConfigError

if TYPE_CHECKING:
    from partibus.server.config import ServeSettings

IMPLIED: Final = ("memory", "faults", "fake_time")


def check(settings: "ServeSettings") -> None:
    """Refuse test switches on a server that keeps its messages, or that has several workers."""
    for name, is_on in (("--testing", settings.testing), ("--fake-time", settings.fake_time)):
        if is_on and not settings.memory:
            raise ConfigError(
                f"{name} is for tests and works only with --memory: this server would keep "
                f"messages on disk. Add --memory, or leave out {name}."
            )
        if is_on and settings.workers > 1:
            raise ConfigError(
                f"{name} works with one worker, not with {settings.workers}; leave out --workers."
            )


async def reset(catalog: Catalog, live: LiveNamespace, definitions: Definitions | None) -> None:
    """Reset a namespace to what its file declares: everything else is deleted, with all
    messages."""
    for record in catalog.entities():
        if catalog.lookup(record.path) is not None:  # not deleted with its topic
            await live.delete(record.path)
    if definitions is not None:
        apply_definitions(catalog, definitions)
