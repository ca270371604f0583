"""Who comes: the holders of credentials of the access table, good and bad.

Owns the rights that each holder has and the tokens that it signs. Which operation needs which
right is `operations`'; the entities and their policies are made by `stage`.
"""

from dataclasses import dataclass
from typing import Final, Literal

from support.namespace import ROOT_KEY, ROOT_POLICY
from support.sas import sas_token

Level = Literal["namespace", "entity"]

SEND: Final = "Send"
LISTEN: Final = "Listen"
MANAGE: Final = "Manage"
OTHER: Final = "other"
"""An entity that no operation of the table is about."""

# SAS-2: who may manage may send and listen, too.
RIGHTS: Final = {SEND: (SEND,), LISTEN: (LISTEN,), MANAGE: (MANAGE, SEND, LISTEN)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A credential: what it truly allows, and what is presented."""

    name: str
    rights: tuple[str, ...] = ()
    level: Level = "namespace"
    policy: str = ROOT_POLICY
    key: str = ROOT_KEY
    resource: str | None = None
    """What its tokens are signed for; None is the entity that is asked about."""
    lifetime_seconds: int = 3600
    has_token: bool = True
    is_in_plain: bool = True
    """Whether it makes sense as a policy's name and key, too."""

    def may(self, right: str, level: Level) -> bool:
        """Whether an operation that needs this right, at this level, is allowed."""
        return right in self.rights and (level == "entity" or self.level == "namespace")

    def token(self, entity: str) -> str | None:
        """The token that it presents for an entity, "" being the namespace."""
        if not self.has_token:
            return None
        asked = entity if self.level == "entity" else ""
        resource = asked if self.resource is None else self.resource
        return sas_token(
            f"http://localhost/{resource}",
            policy=self.policy,
            key=self.key,
            lifetime_seconds=self.lifetime_seconds,
        )

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


def key_of(policy: str) -> str:
    return f"key of {policy}"


def _good(level: Level, right: str) -> Holder:
    policy = f"{level}-{right}"
    return Holder(
        name=f"{right} on the {level}",
        rights=RIGHTS[right],
        level=level,
        policy=policy,
        key=key_of(policy),
    )


NAMESPACE_HOLDERS: Final = tuple(_good("namespace", right) for right in RIGHTS)
ENTITY_HOLDERS: Final = tuple(_good("entity", right) for right in RIGHTS)
OTHER_HOLDER: Final = Holder(
    name="Manage on another entity",
    level="entity",
    policy="other-Manage",
    key=key_of("other-Manage"),
)
STRANGERS: Final = (
    Holder(name="nobody", has_token=False, is_in_plain=False),
    OTHER_HOLDER,
    Holder(name="a token for another entity", resource=OTHER, is_in_plain=False),
    Holder(name="an expired token", lifetime_seconds=-60, is_in_plain=False),
    Holder(name="a wrong key", key="wrong"),
    Holder(name="an unknown policy", policy="Nobody"),
)
HOLDERS: Final = (*NAMESPACE_HOLDERS, *ENTITY_HOLDERS, *STRANGERS)
