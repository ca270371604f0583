"""The offline check: reads everything in a data directory, and changes nothing.

Owns the order of the check (catalog, its copy, each store's log and checkpoint, every body's
checksum, and whether all belong together) and the report. It continues after a finding, so that one
run shows all. Called by `partibus store check`.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.upkeep.recovering import rebuild
from partibus.fragment.upkeep.removal import all_bodies
from partibus.sealing.keys import DataKey
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import Belonging, holds_store, refuse_lost_catalog
from partibus.server.data_directory.directory import CATALOG_NAME
from partibus.server.data_directory.encryption import data_key_of
from partibus.server.data_directory.offline import RebuiltStore, catalog_to_read, locked_directory
from partibus.store.files.checking import StoreUnderCheck
from partibus.store.sealed import sealed_pieces


@dataclass(slots=True)
class PartReport:
    """What was found in the catalog or in one store."""

    name: str
    place: str
    facts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check_data(settings: ServeSettings) -> list[PartReport]:
    """Check everything; the catalog first, then each store."""
    file = settings.data / CATALOG_NAME
    with locked_directory(settings), contextlib.ExitStack() as stack:
        data_key = data_key_of(settings)
        reports = [PartReport("catalog", str(file))]
        catalog = _check_catalog(file, settings, reports[0], stack, data_key)
        belonging = None if catalog is None else Belonging(file, settings, catalog)
        for number, directory in enumerate(settings.store_directories):
            report = PartReport(f"store {number}", str(directory))
            _check_store(number, directory, belonging, report, data_key)
            reports.append(report)
    return reports


def _check_catalog(
    file: Path,
    settings: ServeSettings,
    report: PartReport,
    stack: contextlib.ExitStack,
    data_key: DataKey | None,
) -> Catalog | None:
    try:
        refuse_lost_catalog(file, settings)
        if not file.exists():
            report.problems.append(f"{file} is missing, and so is every store.")
            return None
        catalog = stack.enter_context(catalog_to_read(file, data_key))
        report.facts["entities"] = len(catalog.entities())
        report.facts["generation"] = catalog.identity.generation()
        Belonging(file, settings, catalog).check_places()
    except BusError as error:
        report.problems.append(error.text)
        return None
    return catalog


def _check_store(
    number: int,
    directory: Path,
    belonging: Belonging | None,
    report: PartReport,
    data_key: DataKey | None,
) -> None:
    if not holds_store(directory):
        return  # if something is missing, the catalog check has reported it
    try:
        store = StoreUnderCheck(directory)
    except (BusError, OSError) as error:
        report.problems.append(str(error))
        return
    with contextlib.closing(store):
        try:
            pieces = (
                None
                if data_key is None
                else sealed_pieces(directory, data_key.store_sealer(number))
            )
            found = store.recover()
            rebuilt = RebuiltStore(
                rebuild(found if pieces is None else pieces.recovered(found)), store.log_end
            )
        except (BusError, OSError) as error:
            report.problems.append(_with_place(error, directory))
            return
        refs = [ref for state in rebuilt.states.values() for ref in all_bodies(state)]
        report.facts["fragments"] = len(rebuilt.states)
        report.facts["messages"] = len(refs)
        report.facts["live_bytes"] = sum(length for _, length in refs)
        lying = refs if pieces is None else [pieces.ref(ref) for ref in refs]
        report.problems += store.damaged_bodies(lying)
    if belonging is not None:
        try:
            belonging.check_store(number, rebuilt)
        except BusError as error:
            report.problems.append(error.text)


def _with_place(error: BusError | OSError, directory: Path) -> str:
    """Errors about records alone, or about an open file, do not say in which store."""
    is_silent = isinstance(error, StoreCorrupt) and not error.place
    if is_silent or (isinstance(error, OSError) and error.filename is None):
        return f"{directory}: {error}"
    return str(error)
