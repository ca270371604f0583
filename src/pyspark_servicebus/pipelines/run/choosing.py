"""Which entities of a namespace a pipeline uses.

Owns globs over queues and subscriptions, and the errors for an unreachable bus. Used by the
pipelines for many entities.
"""

import contextlib
import http.client
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from partibus.client.errors import AtomError
from partibus.domain import conditions
from pyspark_servicebus.bus import Entity, discover
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.pipelines.run.globs import fits_any
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.pipelines.run.progress import PipelineFailed, failure_of
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

NAMES_SHOWN: Final = 5


@contextlib.contextmanager
def reported_plainly() -> Iterator[None]:
    """Wraps a pipeline: an error of the bus or of Spark becomes one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise failure_of(error) from error


def known_entities(bus: BusPlace) -> list[EntityInfo]:
    """Every entity of the bus; PipelineFailed when it is unreachable."""
    try:
        return bus.entities()
    except AtomError as error:
        raise PipelineFailed(
            f"The bus does not list its entities: {error.text} The policy of the connection string "
            "needs the Manage right."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise PipelineFailed(
            f"{bus.connection().host} cannot be reached: {error}. Is the server running? Start it "
            "with: partibus serve"
        ) from error


def chosen_entities(known: Iterable[EntityInfo], globs: Sequence[str]) -> list[EntityInfo]:
    """The queues and subscriptions that match the globs; SettingsError when one matches none."""
    able = [entity for entity in known if entity.kind != "topic"]
    for glob in globs:
        if not any(fits_any((glob,), entity.path) for entity in able):
            names = ", ".join(entity.path for entity in able[:NAMES_SHOWN]) or "none"
            more = " ..." if len(able) > NAMES_SHOWN else ""
            raise SettingsError(
                f"entities: no queue or subscription matches '{glob}'; existing: {names}{more}"
            )
    return [entity for entity in able if fits_any(globs, entity.path)]


def find_entity(bus: BusPlace, key: str, path: str) -> Entity:
    """An entity of the bus, or the error about its name."""
    bus.connection()
    try:
        return discover(bus.access(path), path)
    except BulkError as error:
        if error.condition == conditions.PARTIBUS_UNREACHABLE:
            raise PipelineFailed(error.text, error.getCondition()) from None
        if error.condition != conditions.NOT_FOUND:
            raise SettingsError(f"{key}: {error.text}") from None
    raise SettingsError(f"{key}: there is no entity '{path}'{_near(bus, path)}")


def _near(bus: BusPlace, path: str) -> str:
    try:
        known = [entity.path for entity in bus.entities()]
    except (AtomError, OSError):
        return "."  # without the right to list them there is no hint
    return f"; did you mean '{nearest(path, known)}'?" if known else "; there are none."
