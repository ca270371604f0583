"""The settings of `pipeline deadletters`.

Owns their names, defaults and help. The command line, scripts and files all read them here.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_servicebus.pipelines.run.place import BusPlace
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    entity_globs,
    retry_time,
    setting,
)

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.deadletters.rules import Rule

RETRY_MS: Final = 60_000
_rules = partial(setting, panel="Rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings(Declaration):
    """What is read, what is reported, and what is done about it."""

    bus: BusPlace = setting("The bus.", "bus")
    entities: tuple[str, ...] = entity_globs()
    rules: str | None = _rules(
        "A file of rules to carry out, in TOML: resubmit, fix, park, purge or leave.",
        "path",
        default=None,
        metavar="FILE",
    )
    dry_run: bool = _rules("Only count what the rules would do.", "switch", default=False)
    output: str | None = setting(
        "A directory for the report: HTML, JSON, text and Parquet.",
        "path",
        default=None,
        flags=("--output", "-o"),
        metavar="DIR",
    )
    samples: int = setting(
        "How many dead letters of each cause to show.", "number", default=3, least=0
    )
    sample_characters: int = setting(
        "How many characters of each body to show.", "number", default=200, least=0
    )
    wait_ms: int | None = _rules(
        "How long to wait for messages that another receiver has locked; by default the lock"
        " duration of the entity.",
        "duration",
        default=None,
    )
    retry_ms: int = retry_time(RETRY_MS, panel="Rules")

    def loaded_rules(self) -> "tuple[Rule, ...]":
        """The rules of the file; none without one."""
        from pyspark_servicebus.pipelines.deadletters.rules_file import load_rules

        return load_rules(Path(self.rules)) if self.rules is not None else ()
