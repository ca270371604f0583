"""Who may do what: tokens and keys in, grants out (SAS-6 to SAS-8, SAS-11).

Owns the decision whether a credential is valid and what it grants. It reads policies from the
catalog, and entities only to find the resource of a token; it compares host names only where a
resource has no scheme, and keeps nothing: grants belong to the connection that presented the
credential. Called by the gateway ($cbs, SASL PLAIN) and HTTP.
"""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from partibus.control.access import sas
from partibus.control.access.grant import Grant, require
from partibus.control.access.jwt_tokens import JwtVerifier
from partibus.control.access.policies import AccessPolicy
from partibus.control.access.sas import SasToken, TokenRefused
from partibus.control.catalog.catalog import Catalog
from partibus.domain.address import covers, entity_of_messages, path_key, resource_path
from partibus.domain.errors import Unauthorized

__all__ = ["AccessControl", "Grant", "require"]

BEARER: Final = "Bearer "
"""Before a JSON web token in the header of an HTTP request."""


@dataclass(eq=False, slots=True)
class AccessControl:
    """The checks of credentials against the catalog's policies."""

    catalog: Catalog
    jwt: JwtVerifier | None = None

    def accepts(self, token_text: str) -> bool:
        """Whether a token is of a supported kind; not whether it is valid."""
        return self.jwt is not None or token_text.startswith(sas.TOKEN_PREFIX)

    def authenticate_token(
        self, token_text: str, audience: str, now_ms: int, host: str = ""
    ) -> Grant:
        """The grant of a token presented for `audience`: SAS (SAS-5, SAS-6) or JWT (SAS-9).

        `host` is the host name that the client used, if known.
        """
        audience_path = resource_path(audience)
        if self.jwt is not None and not token_text.startswith(sas.TOKEN_PREFIX):
            return self.jwt.grant(token_text.removeprefix(BEARER), audience_path, now_ms)
        token = self._without_host(sas.parse_token(token_text), host)
        return self._grant(token, audience_path, now_ms)

    def authenticate_request(self, token_text: str, entity: str, now_ms: int) -> Grant:
        """The grant of a token in a request about the messages of an entity (HTP-1).

        Here a token may be signed for the address of a request, `orders/messages/head`: it is valid
        for `orders`, but for nothing above it and for no other entity.
        """
        if not token_text.startswith(sas.TOKEN_PREFIX):
            return self.authenticate_token(token_text, entity, now_ms)
        token, entity_path = sas.parse_token(token_text), resource_path(entity)
        if entity_of_messages(token.resource_path) == entity_path and not self._is_entity(token):
            # From here on treated as signed for the entity: a policy of less than that, such as
            # one of an entity called `orders/messages`, cannot sign for it.
            token = replace(token, resource_path=entity_path)
        return self._grant(token, entity_path, now_ms)

    def _is_entity(self, token: SasToken) -> bool:
        return self.catalog.lookup(token.resource_path) is not None

    def _grant(self, token: SasToken, audience_path: str, now_ms: int) -> Grant:
        if not covers(token.resource_path, audience_path):
            raise TokenRefused(
                f"The token's audience '/{token.resource_path}' does not cover "
                f"'/{audience_path}'; sign it for that resource or one above.",
                sas.INVALID_AUDIENCE,
            )
        scope, policy, key = self._signing_policy(token)
        if token.expires_ms <= now_ms:
            raise TokenRefused("The token has expired; make a new one.", sas.EXPIRED_TOKEN)
        return Grant(
            token.resource_path,
            policy.rights,
            token.expires_ms,
            audience_path,
            policy.name,
            scope,
            key=key,
        )

    def _without_host(self, token: SasToken, host: str) -> SasToken:
        """The token for what follows the host, where its resource begins with the bare name.

        The JavaScript administration client signs this way for what an entity forwards to. An
        entity with that name takes precedence over the host.
        """
        head, _, rest = token.resource_path.partition("/")
        if not head or head != path_key(host.partition(":")[0]):
            return token
        if self.catalog.lookup(head) or self.catalog.lookup(token.resource_path):
            return token
        return replace(token, resource_path=rest)

    def authenticate_any(self, token_text: str, now_ms: int) -> Grant:
        """The grant of a token, whatever it is for; for requests that concern no entity."""
        if self.jwt is not None and not token_text.startswith(sas.TOKEN_PREFIX):
            return self.authenticate_token(token_text, "", now_ms)
        token = sas.parse_token(token_text)
        return self._grant(token, token.resource_path, now_ms)

    def authenticate_plain(self, policy_name: str, key: str) -> tuple[Grant, ...]:
        """The grants of a policy's name and key, whatever scope the policy is on (SAS-9)."""
        given = key.encode("utf-8", "replace")
        grants = []
        for scope, policy in self.catalog.policies_named(policy_name):
            # Both keys are always compared, so that the timing reveals nothing.
            is_primary = hmac.compare_digest(policy.primary_key.encode(), given)
            is_secondary = hmac.compare_digest(policy.secondary_key.encode(), given)
            if is_primary or is_secondary:
                grants.append(Grant(scope, policy.rights, None, scope, policy_name, scope, key=key))
        if not grants:
            raise Unauthorized("The policy name or its key is wrong; copy them again.")
        return tuple(grants)

    def recheck(self, grant: Grant) -> Grant | None:
        """The grant under the current policies; None when none of them supports it any more."""
        if not grant.policy:
            return grant
        policy = self.catalog.policy(grant.policy_scope, grant.policy)
        if policy is None or grant.key not in (policy.primary_key, policy.secondary_key):
            return None
        return replace(grant, rights=policy.rights)

    def _signing_policy(self, token: SasToken) -> tuple[str, AccessPolicy, str]:
        """The policy that signed the token, on its resource or an ancestor (SAS-6).

        Returns the policy's scope, the policy, and which of its keys it was.
        """
        is_known = False
        for scope, policy in self._policies_above(token):
            is_known = True
            for key in (policy.primary_key, policy.secondary_key):
                if sas.verify(token, key):
                    return scope, policy, key
        if is_known:
            raise TokenRefused(
                f"The token's signature does not match the policy '{token.policy}'; check the key.",
                sas.INVALID_SIGNATURE,
            )
        raise TokenRefused(
            f"The policy '{token.policy}' is unknown on '/{token.resource_path}' and above it.",
            sas.POLICY_NOT_FOUND,
        )

    def _policies_above(self, token: SasToken) -> Iterator[tuple[str, AccessPolicy]]:
        for scope, policy in self.catalog.policies_named(token.policy):
            if covers(scope, token.resource_path):
                yield scope, policy
