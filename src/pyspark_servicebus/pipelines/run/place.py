"""Where the bus of a pipeline is, and which entities it has.

Owns the options of the data source and the client of the management API for a reference or a
connection string. A secret must never be in a `repr`, an error or a report. The client is imported
when the bus is first called: the command line reads settings without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from partibus.domain.address import subscription_path
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

if TYPE_CHECKING:
    from partibus.client.atom import AtomClient
    from partibus.client.connection_string import ConnectionString
    from partibus.domain.entity_properties import Kind
    from pyspark_servicebus.access import Access
    from pyspark_servicebus.credentials import Credentials

_OPTIONS: Final = {
    "connection_string_ref": "connectionStringRef",
    "connection_string": "connectionString",
    "ca_file": "caFile",
}
PLACE_KEYS: Final = tuple(_OPTIONS)
_KEYS: Final = {option: key for key, option in _OPTIONS.items()}


@dataclass(frozen=True, slots=True)
class EntityInfo:
    """An entity as the management API describes it."""

    path: str
    """The name of a queue or topic; TOPIC/Subscriptions/NAME of a subscription."""
    kind: "Kind"
    fields: Mapping[str, Any] = field(repr=False, compare=False)
    """Its properties and counts, by their names in snake case."""

    @property
    def detects_duplicates(self) -> bool:
        return bool(self.fields.get("requires_duplicate_detection"))

    def source_options(self) -> dict[str, str]:
        """The options of the data source that name this entity."""
        return entity_options(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusPlace:
    """A bus: by reference (env:NAME, file:PATH), or by its connection string."""

    connection_string_ref: str | None = None
    connection_string: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def __post_init__(self) -> None:
        reference = self.connection_string_ref
        if bool(reference) == bool(self.connection_string):
            raise SettingsError(
                "connection_string_ref, connection_string: give exactly one of them; a reference "
                "is env:NAME or file:PATH and is followed wherever the code runs."
            )
        if reference and not reference.startswith(("env:", "file:")):
            raise SettingsError(
                "connection_string_ref: it begins with neither env: nor file:; a connection string "
                "itself is given as connection_string."
            )

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> "BusPlace":
        """A place from the keys of a table; unknown keys are refused."""
        for key, value in table.items():
            if key not in PLACE_KEYS:
                close = nearest(key, PLACE_KEYS)
                raise SettingsError(f"{key}: unknown setting; did you mean {close}?")
            if value is not None and not isinstance(value, str):
                raise SettingsError(f"{key}: expected a string.")
        return cls(**{key: value or None for key, value in table.items()})  # type: ignore[arg-type]

    def options(self) -> dict[str, str]:
        """For `.options(**)` of the data source."""
        return {option: value for key, option in _OPTIONS.items() if (value := getattr(self, key))}

    def connection(self) -> "ConnectionString":
        """The connection string, read now and parsed."""
        from pyspark_servicebus.given_options import OptionError

        try:
            return self._credentials().place()
        except OptionError as error:
            raise SettingsError(f"{_KEYS[error.option]}: {error.reason}") from None

    def _credentials(self) -> "Credentials":
        from pyspark_servicebus.credentials import Credentials

        return Credentials(self.connection_string_ref, self.connection_string, self.ca_file)

    def access(self, path: str, retry_s: float = 0.0) -> "Access":
        """A token for a path; by default nothing waits for an unreachable bus."""
        from pyspark_servicebus.access import Access

        return Access(self._credentials(), path, retry_s)

    def namespace(self) -> str:
        """A name for the bus in paths: the first part of its host name."""
        host = self.connection().host
        is_address = ":" in host or host.replace(".", "").isdigit()
        return host.replace(":", "-") if is_address else host.partition(".")[0]

    def admin(self) -> "AtomClient":
        """The management API; use it as a context manager."""
        from partibus.client.atom import AtomClient

        return AtomClient(self.connection(), ca_file=self.ca_file)

    def entities(self) -> list[EntityInfo]:
        """Every queue, topic and subscription, in this order."""
        with self.admin() as admin:
            queues = [EntityInfo(found["name"], "queue", found) for found in admin.list("queue")]
            topics = [EntityInfo(found["name"], "topic", found) for found in admin.list("topic")]
            subscriptions = [
                EntityInfo(subscription_path(topic.path, found["name"]), "subscription", found)
                for topic in topics
                for found in admin.list("subscription", topic.path)
            ]
        return [*queues, *topics, *subscriptions]


def entity_options(path: str) -> dict[str, str]:
    """The options of the data source for a path: a queue, or TOPIC/Subscriptions/NAME."""
    topic, word, name = _split(path)
    return {"topic": topic, "subscription": name} if word else {"queue": path}


def _split(path: str) -> tuple[str, str, str]:
    lowered = path.lower().rpartition("/subscriptions/")
    if not lowered[1]:
        return path, "", ""
    return path[: len(lowered[0])], lowered[1], path[-len(lowered[2]) :]
