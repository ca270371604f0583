"""Who may administer what: the tokens that come with a request (SAS-6, SAS-8, FWD-3).

Owns which header authorises which resource. `control.access` decides whether a token is valid.
Everything here needs the Manage right. Called by the application and the operations.
"""

from collections.abc import Mapping
from typing import Final

from partibus.control.access.access import AccessControl, Grant, require
from partibus.control.access.sas import TokenRefused
from partibus.domain.address import path_key, strip_authority
from partibus.domain.clock import Clock
from partibus.domain.entity import EntitySpec, TopicSpec
from partibus.domain.rights import Rights

AUTHORIZATION: Final = "authorization"
FORWARD: Final = "servicebussupplementaryauthorization"
FORWARD_DEAD_LETTERS: Final = "servicebusdlqsupplementaryauthorization"
MISSING_TOKEN: Final = 40102
_BEARER: Final = "bearer "


class Permission:
    """What the caller of one request may do."""

    def __init__(self, access: AccessControl, clock: Clock, headers: Mapping[str, str]) -> None:
        self._access = access
        self._clock = clock
        self._headers = headers
        self._grant: Grant | None = None

    def require(self, path: str) -> None:
        """Raise Unauthorized unless the caller may manage the resource at this path."""
        token = self._headers.get(AUTHORIZATION)
        if not token:
            raise TokenRefused(
                "The Authorization header is missing; sign a token with a policy that has the "
                "Manage right.",
                MISSING_TOKEN,
            )
        self._grant = self._require(token, path)

    @property
    def who(self) -> str:
        """Whose token it is."""
        return "" if self._grant is None else self._grant.who

    def require_targets(self, spec: EntitySpec) -> None:
        """Raise Unauthorized unless the caller may manage what the entity forwards to (FWD-3)."""
        if isinstance(spec, TopicSpec):
            return
        for header, target in (
            (FORWARD, spec.forward_to),
            (FORWARD_DEAD_LETTERS, spec.forward_dead_lettered_messages_to),
        ):
            if target:
                self._require_target(header, strip_authority(target))

    def _require_target(self, header: str, target: str) -> None:
        token = self._headers.get(header)
        if token:
            self._require(token, target)
        else:
            grants = () if self._grant is None else (self._grant,)
            require(grants, target, Rights.MANAGE, self._clock.now_ms())

    def _require(self, token: str, path: str) -> Grant:
        # The Python client also sends a ready-made shared access signature as a bearer token.
        if token[: len(_BEARER)].lower() == _BEARER:
            token = token[len(_BEARER) :].strip()
        now_ms = self._clock.now_ms()
        # As a path: a colon in it must not be mistaken for a scheme.
        host = self._headers.get("host", "")
        grant = self._access.authenticate_token(token, f"/{path_key(path)}", now_ms, host)
        return require([grant], path, Rights.MANAGE, now_ms)
