"""What a credential has earned: rights over a scope, for a time.

Owns the shape of a grant and the question whether one allows a right. It never looks at a
credential: `control.access` and `control.jwt_tokens` make grants, connections keep them.
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
    audience takes the grant's place (SAS-10). `expires_ms` None means for good.
    """

    scope: str
    rights: Rights
    expires_ms: int | None
    audience: str = ""
    policy: str = field(default="", compare=False)
    """The name of the policy that it rests on; "" when it rests on none."""
    policy_scope: str = field(default="", compare=False)
    subject: str = field(default="", compare=False)
    """Whom a JSON web token names; "" when it rests on a policy."""
    key: str = field(default="", compare=False, repr=False)
    """The policy's key that proved it: when that key is replaced, the grant ends (SAS-7)."""

    @property
    def who(self) -> str:
        """Whose credential it is, as the log says it."""
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
