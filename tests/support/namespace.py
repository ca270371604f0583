"""The namespace that tests run against: many queues of a few kinds, each used once.

Owns the kinds, the TOML file that declares them and the handing out of fresh names, so that
no test sees another one's messages. Policies with fewer rights are declared here too.
"""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT_POLICY: Final = "RootManageSharedAccessKey"
ROOT_KEY: Final = "SAS_KEY_VALUE"

# Namespace policies by name: key and rights.
POLICIES: Final = {
    "NamespaceSend": ("namespace-send-key", ("Send",)),
    "NamespaceListen": ("namespace-listen-key", ("Listen",)),
}
# Policies that every queue of the kind "guarded" has, and no other queue.
QUEUE_POLICIES: Final = {
    "QueueSend": ("queue-send-key", ("Send",)),
    "QueueListen": ("queue-listen-key", ("Listen",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A sort of queue: its properties as TOML values, and how many there are."""

    count: int
    properties: dict[str, str] = field(default_factory=dict)
    guarded: bool = False


KINDS: Final = {
    "plain": Kind(count=150),
    "brief": Kind(count=30, properties={"lock_duration": '"PT1S"'}),
    "steady": Kind(count=5, properties={"lock_duration": '"PT3S"'}),
    "fragile": Kind(count=20, properties={"max_delivery_count": "2"}),
    "ephemeral": Kind(count=10, properties={"lock_duration": '"PT1S"', "max_delivery_count": "1"}),
    "mortal": Kind(count=10, properties={"dead_lettering_on_message_expiration": "true"}),
    "guarded": Kind(count=20, guarded=True),
}


class Queues:
    """Hands out queue names of a kind, each once."""

    def __init__(self) -> None:
        self._next = {kind: itertools.count() for kind in KINDS}

    def fresh(self, kind: str = "plain") -> str:
        number = next(self._next[kind])
        assert number < KINDS[kind].count, f"declare more queues of the kind {kind!r}"
        return f"{kind}-{number}"


def write_namespace(path: Path) -> Path:
    """Write the TOML file that declares every kind of queue and every policy."""
    blocks = [_policy("policy", name, *policy) for name, policy in POLICIES.items()]
    for name, kind in KINDS.items():
        blocks += [_queue(f"{name}-{number}", kind) for number in range(kind.count)]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def _queue(name: str, kind: Kind) -> str:
    lines = ["[[queue]]", f'name = "{name}"']
    lines += [f"{key} = {value}" for key, value in kind.properties.items()]
    text = "\n".join(lines) + "\n"
    if kind.guarded:
        policies = (_policy("queue.policy", *item) for item in _flat(QUEUE_POLICIES))
        text += "\n".join(policies)
    return text


def _flat(
    policies: dict[str, tuple[str, tuple[str, ...]]],
) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(name, key, rights) for name, (key, rights) in policies.items()]


def _policy(table: str, name: str, key: str, rights: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{right}"' for right in rights)
    return f'[[{table}]]\nname = "{name}"\nkey = "{key}"\nrights = [{listed}]\n'
