"""The settings that a worker receives when it starts, as one line of JSON.

Owns the form of that line. It goes through a pipe, never through arguments or the environment,
which other users of the machine can read. The supervisor writes it, the worker reads it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from partibus.cluster.membership import Membership
from partibus.server.config import ServeSettings


@dataclass(slots=True, frozen=True, kw_only=True)
class Assignment:
    """The settings of the whole server, with actual ports, and the worker's number."""

    settings: ServeSettings
    membership: Membership


def encode_assignment(assignment: Assignment) -> bytes:
    """The line, including its newline."""
    return msgspec.json.encode(assignment, enc_hook=str) + b"\n"


def decode_assignment(line: bytes) -> Assignment:
    """The assignment from the line."""
    return msgspec.json.decode(line, type=Assignment, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(f"no way to read a {kind.__name__}")
