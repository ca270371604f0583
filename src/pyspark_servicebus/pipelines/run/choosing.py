"""Which entities of a namespace a pipeline uses.

Owns globs over queues and subscriptions, and the errors for an unreachable bus. Used by the
pipelines for many entities.
"""

import contextlib
import http.client
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from partibus.client.errors import AtomError
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.pipelines.run.progress import PipelineFailed, failure_of
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.triage.rules import fits_any

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
