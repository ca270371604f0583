"""The entities that one holder works on, made afresh and filled by the root policy.

Owns a queue with a message in every state, a queue with sessions, a topic, and one entity to be
deleted, each with the policies of `holders`. It can tell whether anything of it has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from conformance.access.holders import ENTITY_HOLDERS
from support.json_admin import JsonAdmin

SESSION = "s"


@dataclass(frozen=True, slots=True)
class Stage:
    """Names of entities that no other test uses."""

    queue: str
    sessions: str
    topic: str
    doomed: str

    @property
    def subscription(self) -> str:
        return f"{self.topic}/Subscriptions/sub"

    @property
    def entities(self) -> tuple[str, ...]:
        return (self.queue, self.sessions, self.topic, self.doomed)


def build(admin: JsonAdmin, number: int) -> Stage:
    """Make the entities and their policies."""
    stage = Stage(*(f"{kind}-{number}" for kind in ("queue", "sessions", "topic", "doomed")))
    admin.create(stage.queue)
    admin.create(stage.sessions, requires_session=True)
    admin.create(stage.topic, "topic")
    admin.create(stage.subscription, "subscription")
    admin.create(stage.doomed)
    for entity in stage.entities:
        for holder in ENTITY_HOLDERS:
            grant(admin, holder.policy, holder.rights, holder.key, entity)
    return stage


def grant(
    admin: JsonAdmin, policy: str, rights: tuple[str, ...], key: str, entity: str = ""
) -> None:
    """Give a policy with a key of our own choice."""
    path = f"/policies/{policy}" + (f"?entity={quote(entity, safe='')}" if entity else "")
    admin.ask("PUT", path, {"rights": list(rights), "primary_key": key})


def snapshot(admin: JsonAdmin, stage: Stage) -> Mapping[str, Any]:
    """All that an operator sees: entities, properties, counts, policies."""
    return {
        "entities": sorted(entity["name"] for entity in admin.ask("GET", "/entities")["entities"]),
        "shown": {
            entity: _lasting(admin.ask("GET", f"/entities/{quote(entity)}"))
            for entity in (*stage.entities, stage.subscription)
        },
        "policies": {entity: admin.policies(entity) for entity in ("", *stage.entities)},
    }


def _lasting(shown: dict[str, Any]) -> dict[str, Any]:
    """Without what a mere question changes."""
    return {key: value for key, value in shown.items() if key not in ("fragments", "accessed_ms")}
