"""Who may do what: tokens and keys in, claims out (SAS-6 to SAS-8, SAS-11).

Owns the decision whether a credential is good and what it grants. It asks the catalog for
policies and never for entities, never compares host names, and keeps nothing: claims belong
to the connection that earned them. Called by the gateway ($cbs, SASL PLAIN) and HTTP.
"""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from partibus.control import sas
from partibus.control.catalog import Catalog
from partibus.control.policies import AccessPolicy
from partibus.control.sas import SasToken, TokenRefused
from partibus.domain.address import covers, path_key, resource_path
from partibus.domain.errors import Unauthorized
from partibus.domain.rights import Rights, names_of_rights


@dataclass(slots=True, frozen=True)
class Claim:
    """Rights over a scope and everything below it; `scope` "" is the namespace.

    `audience` is the path that the credential was presented for: a later token for the same
    audience takes the claim's place (SAS-10). `expires_ms` None means for good.
    """

    scope: str
    rights: Rights
    expires_ms: int | None
    audience: str = ""

    def allows(self, path: str, right: Rights, now_ms: int) -> bool:
        """Whether this claim grants `right` on `path`, which is given in lower case."""
        if self.expires_ms is not None and self.expires_ms <= now_ms:
            return False
        return (self.rights & right) == right and covers(self.scope, path)


def require(claims: Iterable[Claim], path: str, right: Rights, now_ms: int) -> Claim:
    """The claim that grants `right` on `path`; none is an error that names the right."""
    key = path_key(path)
    for claim in claims:
        if claim.allows(key, right, now_ms):
            return claim
    names = ",".join(names_of_rights(right))
    raise Unauthorized(
        f"Unauthorized access. '{names}' claim(s) are required to perform this operation. "
        f"Resource: '{path}'. Use a policy that has the right, on this entity or the namespace."
    )


class AccessControl:
    """The checks of credentials against the catalog's policies."""

    __slots__ = ("_catalog",)

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def authenticate_token(self, token_text: str, audience: str, now_ms: int) -> Claim:
        """The claim of a SAS token presented for `audience` (SAS-5, SAS-6)."""
        token = sas.parse_token(token_text)
        audience_path = resource_path(audience)
        if not covers(token.resource_path, audience_path):
            raise TokenRefused(
                f"The token's audience '/{token.resource_path}' does not cover "
                f"'/{audience_path}'; sign it for that resource or one above.",
                sas.INVALID_AUDIENCE,
            )
        policy = self._signing_policy(token)
        if token.expires_ms <= now_ms:
            raise TokenRefused("The token has expired; make a new one.", sas.EXPIRED_TOKEN)
        return Claim(token.resource_path, policy.rights, token.expires_ms, audience_path)

    def authenticate_plain(self, policy_name: str, key: str) -> tuple[Claim, ...]:
        """The claims of a policy's name and key, wherever the policy sits (SAS-9)."""
        given = key.encode("utf-8", "replace")
        claims = []
        for scope, policy in self._catalog.policies_named(policy_name):
            # Both keys are compared, whatever the first gave, so that time tells nothing.
            is_primary = hmac.compare_digest(policy.primary_key.encode(), given)
            is_secondary = hmac.compare_digest(policy.secondary_key.encode(), given)
            if is_primary or is_secondary:
                claims.append(Claim(scope, policy.rights, None, scope))
        if not claims:
            raise Unauthorized("The policy name or its key is wrong; copy them anew.")
        return tuple(claims)

    def _signing_policy(self, token: SasToken) -> AccessPolicy:
        """The policy whose key signed the token, on its resource or an ancestor (SAS-6)."""
        is_known = False
        for policy in self._policies_above(token):
            is_known = True
            if sas.verify(token, policy.primary_key) or sas.verify(token, policy.secondary_key):
                return policy
        if is_known:
            raise TokenRefused(
                f"The token's signature does not fit the policy '{token.policy}'; check the key.",
                sas.INVALID_SIGNATURE,
            )
        raise TokenRefused(
            f"The policy '{token.policy}' is not known on '/{token.resource_path}' or above it.",
            sas.POLICY_NOT_FOUND,
        )

    def _policies_above(self, token: SasToken) -> Iterator[AccessPolicy]:
        for scope, policy in self._catalog.policies_named(token.policy):
            if covers(scope, token.resource_path):
                yield policy
