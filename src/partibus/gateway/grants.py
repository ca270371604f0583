"""What one client connection may do: its grants, and since when it must have one.

Owns the list of grants of a connection. A later token for the same audience replaces the earlier
one without disturbing links (SAS-10). It must never judge credentials, which is access control's
work, and knows no links.
"""

from dataclasses import dataclass, field

from partibus.control.access.access import AccessControl, Grant, require
from partibus.domain.errors import QuotaExceeded
from partibus.domain.rights import Rights


@dataclass(eq=False, slots=True)
class Grants:
    """The grants of one connection."""

    access: AccessControl
    tokens_max: int
    _by_audience: dict[str, Grant] = field(init=False, default_factory=dict)

    @property
    def are_empty(self) -> bool:
        """Whether no credentials were presented yet."""
        return not self._by_audience

    @property
    def held(self) -> list[Grant]:
        """Every grant, at this moment."""
        return list(self._by_audience.values())

    def put_token(self, token: str, audience: str, now_ms: int) -> None:
        """Add the grant of a token, or renew the one for its audience."""
        grant = self.access.authenticate_token(token, audience, now_ms)
        is_new = grant.audience not in self._by_audience
        if is_new and len(self._by_audience) >= self.tokens_max:
            raise QuotaExceeded(
                f"A connection may hold at most {self.tokens_max} tokens (SAS-9); "
                "open another connection."
            )
        self._by_audience[grant.audience] = grant

    def put_plain(self, policy: str, key: str) -> None:
        """Add the grants of a policy's name and key."""
        for grant in self.access.authenticate_plain(policy, key):
            self._by_audience[grant.audience] = grant

    def require(self, path: str, right: Rights, now_ms: int) -> None:
        """Raise Unauthorized unless a grant allows the right."""
        require(self._by_audience.values(), path, right, now_ms)

    def recheck(self) -> bool:
        """Policies have changed: returns True when a grant was reduced or revoked (SAS-7)."""
        rechecked = {
            audience: self.access.recheck(grant) for audience, grant in self._by_audience.items()
        }
        has_less = any(
            grant is None or grant.rights != self._by_audience[audience].rights
            for audience, grant in rechecked.items()
        )
        self._by_audience = {a: grant for a, grant in rechecked.items() if grant is not None}
        return has_less

    def next_expiry_ms(self) -> int | None:
        """When the first grant expires."""
        times = [c.expires_ms for c in self._by_audience.values() if c.expires_ms is not None]
        return min(times, default=None)

    def drop_expired(self, now_ms: int) -> bool:
        """Forget expired grants; returns True when there were any."""
        gone = [
            audience
            for audience, grant in self._by_audience.items()
            if grant.expires_ms is not None and grant.expires_ms <= now_ms
        ]
        for audience in gone:
            del self._by_audience[audience]
        return bool(gone)
