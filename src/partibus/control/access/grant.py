"""What a credential grants: rights over a scope, for a time.

Owns the form of a grant and the check whether one allows a right. It must never look at a
credential: `access` and `jwt_tokens` make grants, connections keep them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from partibus.domain.address import covers, path_key
from partibus.domain.errors import Unauthorized
from partibus.domain.rights import Rights, names_of_rights


@dataclass(slots=True, frozen=True)
class Grant:
    """Rights over a scope and everything below it; `scope` "" is the namespace.

    `audience` is the path that the credential was presented for: a later token for the same
    audience replaces the grant (SAS-10). `expires_ms` None means that it does not expire.
    """

    scope: str
    rights: Rights
    expires_ms: int | None
    audience: str = ""
    policy: str = field(default="", compare=False)
    """The name of the policy behind it; "" when there is none."""
    policy_scope: str = field(default="", compare=False)
    subject: str = field(default="", compare=False)
    """The subject of a JSON web token; "" for a policy."""
    key: str = field(default="", compare=False, repr=False)
    """The policy's key that was used: when that key is replaced, the grant ends (SAS-7)."""

    @property
    def who(self) -> str:
        """Whose credential it is, for the log."""
        return self.policy or self.subject

    def allows(self, path: str, right: Rights, now_ms: int) -> bool:
        """Whether this grant allows `right` on `path`, which is given in lower case."""
        if self.expires_ms is not None and self.expires_ms <= now_ms:
            return False
        return (self.rights & right) == right and covers(self.scope, path)


def require(grants: Iterable[Grant], path: str, right: Rights, now_ms: int) -> Grant:
    """The grant that allows `right` on `path`; none is an error that names the right."""
    key = path_key(path)
    for grant in grants:
        if grant.allows(key, right, now_ms):
            return grant
    names = ",".join(names_of_rights(right))
    raise Unauthorized(
        f"Unauthorized access. '{names}' claim(s) are required to perform this operation. "
        f"Resource: '{path}'. Use a policy that has the right, on this entity or the namespace."
    )
