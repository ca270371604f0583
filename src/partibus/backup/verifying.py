"""Whether the backups of a directory are intact.

Owns the check of every object that a backup needs, each read once however many need it, and the
report. It continues after a finding, so that one run shows all. Called by `partibus backup verify`
and before a restore.
"""

from dataclasses import dataclass, field

from partibus.backup.manifest import Manifest
from partibus.backup.repository import Advance, Repository
from partibus.domain.errors import BusError


@dataclass(slots=True)
class BackupReport:
    """The findings for one backup."""

    id: str
    files: int = 0
    total_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def verify(repository: Repository, names: list[str], advance: Advance) -> list[BackupReport]:
    """Read everything that these backups need."""
    reports = []
    checked: dict[str, str | None] = {}
    for name in names:
        report = BackupReport(name)
        try:
            manifest = repository.manifest(name)
        except (BusError, OSError) as error:
            report.problems.append(str(error))
        else:
            report.files = len(manifest.files)
            report.total_bytes = manifest.total_bytes
            report.problems += _problems(repository, manifest, checked, advance)
        reports.append(report)
    return reports


def _problems(
    repository: Repository, manifest: Manifest, checked: dict[str, str | None], advance: Advance
) -> list[str]:
    found = []
    for file in manifest.files:
        if file.sha256 not in checked:
            checked[file.sha256] = _problem(repository, file.sha256, file.length, advance)
        problem = checked[file.sha256]
        if problem is not None:
            found.append(f"{file.place}: {problem}")
    return found


def _problem(repository: Repository, sha256: str, length: int, advance: Advance) -> str | None:
    try:
        for chunk in repository.chunks(sha256, length):
            advance(len(chunk))
    except (BusError, OSError) as error:
        return str(error)
    return None
