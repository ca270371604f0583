"""Shared access signatures: the token's text, its signature, and nothing more (SAS-5).

Owns parsing and the constant-time check of one signature against one key. It knows no
policies, no rights and no clock: `control.access` adds those. Refusals are `TokenRefused`, whose
`sub_code` says which part was wrong (SAS-11).
"""

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, unquote_plus

from partibus.domain.address import resource_path
from partibus.domain.errors import Unauthorized

TOKEN_PREFIX: Final = "SharedAccessSignature "  # noqa: S105 - a word of the format

INVALID_SIGNATURE: Final = 40103
INVALID_AUDIENCE: Final = 40104
MALFORMED_TOKEN: Final = 40105
EXPIRED_TOKEN: Final = 40106
POLICY_NOT_FOUND: Final = 40109

# Tokens of the vendor's clients stay below 1 KiB; a much longer one is not valid.
_TOKEN_LENGTH_MAX: Final = 16_384
_EXPIRY: Final = re.compile(r"[0-9]{1,12}")
# A resource may have no scheme; then only what can never be an entity name (a port, the vendor's
# domain) is treated as the host.
_BARE_AUTHORITY: Final = re.compile(
    r"(?:[^/]+:[0-9]{1,5}|[^/]+\.servicebus\.windows\.net(?::[0-9]{1,5})?)(?=/|$)", re.IGNORECASE
)


class TokenRefused(Unauthorized):
    """The token was refused; make a new one with a valid key for this resource."""

    def __init__(self, text: str, sub_code: int) -> None:
        self.sub_code = sub_code
        super().__init__(text)


@dataclass(slots=True, frozen=True)
class SasToken:
    """A parsed token; `signed_text` is what the signature covers."""

    resource_path: str
    signature: str
    expires_ms: int
    policy: str
    signed_text: str


def parse_token(text: str) -> SasToken:
    """Parse a token; fields may be in any order, unknown ones are ignored."""
    if len(text) > _TOKEN_LENGTH_MAX or not text.startswith(TOKEN_PREFIX):
        raise TokenRefused(
            f"The token is malformed: it must begin with '{TOKEN_PREFIX}'.", MALFORMED_TOKEN
        )
    fields: dict[str, str] = {}
    for part in text[len(TOKEN_PREFIX) :].strip().split("&"):
        name, _, value = part.partition("=")
        if name in fields:
            raise TokenRefused(f"The token is malformed: '{name}' appears twice.", MALFORMED_TOKEN)
        fields[name] = value
    for name in ("sr", "sig", "se", "skn"):
        if not fields.get(name):
            raise TokenRefused(f"The token is malformed: '{name}' is missing.", MALFORMED_TOKEN)
    if not _EXPIRY.fullmatch(fields["se"]):
        raise TokenRefused(
            "The token is malformed: 'se' must be the expiry in seconds since 1970.",
            MALFORMED_TOKEN,
        )
    return SasToken(
        resource_path=_path_of_resource(unquote_plus(fields["sr"])),
        signature=unquote(fields["sig"]),
        expires_ms=int(fields["se"]) * 1000,
        policy=unquote_plus(fields["skn"]),
        # As received: clients differ in how they escape, and the JS one in its case.
        signed_text=f"{fields['sr']}\n{fields['se']}",
    )


def key_name(text: str) -> str:
    """The name of the key that a token names as its signing key; "" when it names none."""
    for part in text[:_TOKEN_LENGTH_MAX].removeprefix(TOKEN_PREFIX).strip().split("&"):
        name, _, value = part.partition("=")
        if name == "skn":
            return unquote_plus(value)
    return ""


def _path_of_resource(resource: str) -> str:
    # The JavaScript administration client signs the whole address of its request; a path cannot
    # contain a question mark (ENT-7).
    resource = resource.partition("?")[0]
    if "://" not in resource:
        match = _BARE_AUTHORITY.match(resource)
        if match:
            resource = resource[match.end() :]
    return resource_path(resource)


def verify(token: SasToken, key: str) -> bool:
    """Whether the token was signed with `key`; takes the same time for any wrong one."""
    expected = _signature(token.signed_text, key)
    return hmac.compare_digest(expected.encode(), token.signature.encode("utf-8", "replace"))


def _signature(text: str, key: str) -> str:
    # The key is used as text, not base64-decoded (SAS-5).
    digest = hmac.digest(key.encode(), text.encode("utf-8", "replace"), hashlib.sha256)
    return base64.b64encode(digest).decode("ascii")
