"""The queues that the tests of settlement run against: many of a few kinds, each used once.

Owns the kinds, the TOML text that declares them and the handing out of fresh names. Short
times are in the kinds, so that no test waits longer than a few seconds.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.namespace import Kind

_MOURNS: Final = {"dead_lettering_on_message_expiration": "true"}

KINDS: Final = {
    # Every default of the service: a lock of a minute, ten deliveries, no time to live.
    "plain": Kind(count=240),
    # Locks that lapse soon; the asynchronous client's renewer cannot keep one of two seconds.
    "brief": Kind(count=30, properties={"lock_duration": '"PT1S"'}),
    "renewed": Kind(count=20, properties={"lock_duration": '"PT3S"'}),
    # Few deliveries.
    "fragile": Kind(count=20, properties={"max_delivery_count": "2"}),
    "once": Kind(count=10, properties={"max_delivery_count": "1"}),
    # Expired messages become dead letters.
    "mourning": Kind(count=30, properties=_MOURNS),
    "brief-mourning": Kind(count=10, properties=_MOURNS | {"lock_duration": '"PT1S"'}),
    "fleeting": Kind(count=20, properties=_MOURNS | {"default_message_time_to_live": '"PT1S"'}),
    "vanishing": Kind(count=10, properties={"default_message_time_to_live": '"PT1S"'}),
    # Small in one way or another.
    "tiny": Kind(count=10, properties={"max_size_in_megabytes": "1"}),
    "narrow": Kind(count=10, properties={"max_message_size_in_kilobytes": "16"}),
    # Switched off.
    "disabled": Kind(count=10, properties={"status": '"Disabled"'}),
    "send-disabled": Kind(count=10, properties={"status": '"SendDisabled"'}),
    "receive-disabled": Kind(count=10, properties={"status": '"ReceiveDisabled"'}),
}


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str = "plain") -> str:
        number = next(self._next[kind])
        assert number < KINDS[kind].count, f"declare more queues of the kind {kind!r}"
        return f"{kind}-{number}"


def write_kinds(path: Path) -> Path:
    """Write the TOML file that declares every queue of every kind."""
    return write_queues(
        path,
        {
            f"{name}-{number}": kind.properties
            for name, kind in KINDS.items()
            for number in range(kind.count)
        },
    )


def write_queues(path: Path, queues: Mapping[str, Mapping[str, str]]) -> Path:
    """Write a TOML file of these queues, each with its properties as TOML values."""
    blocks = []
    for name, properties in queues.items():
        lines = ["[[queue]]", f'name = "{name}"']
        lines += [f"{key} = {value}" for key, value in properties.items()]
        blocks.append("\n".join(lines) + "\n")
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path
