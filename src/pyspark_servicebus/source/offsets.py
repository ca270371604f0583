"""Offsets: the position of a stream, as Spark keeps it in the checkpoint.

Owns their form, its version, and the reading of those written by earlier releases, so that a
checkpoint can be used after an upgrade. Spark compares offsets as text: one that does not move is
returned exactly as it was read. Pure; what a position means for the bus is decided by each mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark_servicebus.errors import CheckpointError

OFFSET_VERSION: Final = 2
Offset = dict[str, Any]
"""An offset in Spark's form: JSON."""
_PLAIN: Final = {"entity_id": "generation", "batch": "batch", "claim": "claim", "count": "count"}
"""The key of each field in a checkpoint."""
_BY_FRAGMENT: Final = ("positions", "messages", "waiting", "unsettled")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """Where a batch ends. A mode uses some of the fields, and leaves the others out."""

    entity_id: int | None = None
    """The id of the entity: another one was deleted and created again."""
    positions: dict[int, int] | None = None
    """The next number to read of each fragment, for `cursor` and `peek`."""
    messages: dict[int, int] | None = None
    """How many messages the batch has of each fragment, where that is known."""
    waiting: dict[int, int] | None = None
    """How many messages wait in each fragment, of a stream with claims; only in reports."""
    batch: int | None = None
    """The number of the batch."""
    claim: str | None = None
    """The name under which the messages of the batch are held; empty before the first."""
    count: int | None = None
    """How many messages are held in all fragments together, for `deferclaim`."""
    unsettled: dict[int, str] = field(default_factory=dict)
    """Claims of earlier batches that are done and still have to be settled, by fragment."""

    def as_json(self) -> Offset:
        """For Spark."""
        given = {key: getattr(self, name) for name, key in _PLAIN.items()}
        given |= {name: getattr(self, name) for name in _BY_FRAGMENT}
        given["unsettled"] = self.unsettled or None
        written = {
            name: by_name(value) if name in _BY_FRAGMENT else value
            for name, value in given.items()
            if value is not None
        }
        return {"version": OFFSET_VERSION, **written}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """An offset of this release or of an earlier one."""
        version = written.get("version", written.get("v"))
        if version not in _READERS:
            raise CheckpointError(
                "OFFSET_VERSION",
                f"The checkpoint has offsets of version {version}; this release reads versions 1 "
                f"to {OFFSET_VERSION}. Use the release that wrote it, or a newer one.",
                version=version,
                newest=OFFSET_VERSION,
            )
        return cls(**_READERS[version](written))

    def held(self) -> dict[int, str]:
        """The claims to settle when the batch is done, by fragment."""
        claims = dict(self.unsettled)
        if self.claim and self.messages:
            claims.update(dict.fromkeys(self.messages, self.claim))
        return claims

    def planned_after(self, start: "SourceOffset | None") -> int | None:
        """How many messages the batch from `start` to here was planned with; None if not known."""
        if self.count is not None:
            return self.count
        if self.messages is None:
            return None
        if self.positions is not None:
            before = (start.positions if start is not None else None) or {}
            moved = {i for i, last in self.positions.items() if last > max(before.get(i, 0), 1)}
            if not moved <= set(self.messages):
                return None
        return sum(self.messages.values())


def by_name(numbers: Mapping[int, Any]) -> dict[str, Any]:
    """By the name of a fragment, as JSON needs it, in order."""
    return {str(index): numbers[index] for index in sorted(numbers)}


def by_index(numbers: Mapping[str, Any]) -> dict[int, Any]:
    """By the index of a fragment again."""
    return {int(index): number for index, number in numbers.items()}


def _read(written: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: written[key] for name, key in _PLAIN.items() if key in written}
    return plain | {key: by_index(written[key]) for key in _BY_FRAGMENT if key in written}


def _read_first(written: Mapping[str, Any]) -> dict[str, Any]:
    """Version 1: g entity id, f fragments, n batch, c claim, k messages, u unsettled."""
    found: dict[str, Any] = {"entity_id": written.get("g"), "batch": written.get("n")}
    fragments = by_index(written["f"]) if "f" in written else None
    claim = written.get("c")
    if claim is None:
        counts = by_index(written["k"]) if "k" in written else None
        return found | {"positions": fragments, "messages": counts}
    if fragments is None:
        return found | {"claim": claim, "count": written.get("k")}
    if claim == "waiting":
        return found | {"waiting": fragments}
    unsettled = by_index(written.get("u", {}))
    return found | {"claim": claim, "messages": fragments, "unsettled": unsettled}


_READERS: Final = {1: _read_first, OFFSET_VERSION: _read}
