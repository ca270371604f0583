"""JSON web tokens as credentials: who may sign them, and what their roles allow (SAS-9).

Owns the check of one token against the configured issuer, audience and keys, and the mapping of its
roles to rights over the namespace. It needs no network: keys are read once from files, never
fetched. Times are compared with the clock of the bus. Made by the node, called by access control;
tokens and keys never reach a log or an error text.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from partibus.control.access import sas
from partibus.control.access.grant import Grant
from partibus.control.access.sas import TokenRefused
from partibus.domain.errors import ConfigError
from partibus.domain.rights import Rights, rights_from_names

if TYPE_CHECKING:
    from jwt import PyJWK

HMAC_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
SIGNATURE_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256")
SECRET_BYTES_MIN: Final = 32
"""A shorter secret can be guessed (RFC 7518, 3.2)."""
DEFAULT_ROLES: Final = {
    "Azure Service Bus Data Owner": ("Manage", "Send", "Listen"),
    "Azure Service Bus Data Sender": ("Send",),
    "Azure Service Bus Data Receiver": ("Listen",),
}
_TOKEN_LENGTH_MAX: Final = 16_384
SUBJECT_LENGTH_MAX: Final = 256
"""Length limit of the name that operators see."""
_SECONDS_MAX: Final = 253_402_300_799
"""The end of the year 9999; our clocks do not go beyond."""
_PEM: Final = b"-----BEGIN "


@dataclass(slots=True, frozen=True, kw_only=True)
class JwtSettings:
    """Which tokens are accepted; one of the two files contains the keys."""

    issuer: str
    audience: str
    key_file: Path | None = None
    """A shared secret, or a public key in PEM."""
    jwks_file: Path | None = None
    """A JSON web key set; tokens name their key by its `kid`."""
    algorithms: tuple[str, ...] = ()
    """Empty: HS256 for a shared secret, RS256 otherwise."""
    roles_claim: str = "roles"
    roles: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(DEFAULT_ROLES))


class JwtVerifier:
    """Tokens in, grants out."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys: dict[str, PyJWK] = {}
        self._key: bytes | None = None
        self._algorithms: tuple[str, ...] = settings.algorithms
        if settings.jwks_file is not None:
            self._read_key_set(settings.jwks_file)
        elif settings.key_file is not None:
            self._read_key(settings.key_file)
        else:
            raise ConfigError("[jwt] needs key_file or jwks_file.")
        self._rights = {role: rights_from_names(names) for role, names in settings.roles.items()}

    # --- keys -----------------------------------------------------------------------------

    def _read_key(self, file: Path) -> None:
        key = _read(file).strip()
        is_public_key = key.startswith(_PEM)
        allowed = SIGNATURE_ALGORITHMS if is_public_key else HMAC_ALGORITHMS
        if not is_public_key and len(key) < SECRET_BYTES_MIN:
            raise ConfigError(f"{file}: a shared secret needs at least {SECRET_BYTES_MIN} bytes.")
        self._settle_algorithms(allowed)
        self._key = key

    def _read_key_set(self, file: Path) -> None:
        jwt = _library()
        try:
            keys = jwt.PyJWKSet.from_dict(json.loads(_read(file))).keys
        except (ValueError, jwt.PyJWTError) as error:
            raise ConfigError(f"{file} is not a JSON Web Key Set: {error}") from error
        self._keys = {str(key.key_id): key for key in keys}
        self._settle_algorithms(SIGNATURE_ALGORITHMS)

    def _settle_algorithms(self, allowed: tuple[str, ...]) -> None:
        """Only algorithms that fit the key: a public key must never be used as a shared secret."""
        self._algorithms = self._algorithms or allowed[:1]
        wrong = [name for name in self._algorithms if name not in allowed]
        if wrong:
            raise ConfigError(
                f"[jwt] algorithms: {wrong[0]} does not match the key; allowed: "
                f"{', '.join(allowed)}."
            )

    # --- tokens ---------------------------------------------------------------------------

    def grant(self, token: str, audience_path: str, now_ms: int) -> Grant:
        """What a token presented for `audience_path` grants; refusals say which part is wrong."""
        fields = self._verified(token)
        expires_ms = _moment_ms(fields, "exp")
        if expires_ms is None or expires_ms <= now_ms:
            raise TokenRefused("The token has expired; get a new one.", sas.EXPIRED_TOKEN)
        if (_moment_ms(fields, "nbf") or 0) > now_ms:
            raise TokenRefused("The token is not valid yet.", sas.EXPIRED_TOKEN)
        subject = str(fields.get("sub", ""))[:SUBJECT_LENGTH_MAX]
        return Grant("", self._rights_of(fields), expires_ms, audience_path, subject=subject)

    def _verified(self, token: str) -> dict[str, Any]:
        jwt = _library()
        if len(token) > _TOKEN_LENGTH_MAX:
            raise TokenRefused("The token is too long.", sas.MALFORMED_TOKEN)
        settings = self._settings
        try:
            fields: dict[str, Any] = jwt.decode(
                token,
                self._key_of(jwt.get_unverified_header(token)),
                algorithms=list(self._algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    # Compared here, with the clock of the bus.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.InvalidAudienceError, jwt.InvalidIssuerError) as error:
            raise TokenRefused(
                "The token's issuer or audience is not accepted by this server.",
                sas.INVALID_AUDIENCE,
            ) from error
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError) as error:
            raise TokenRefused(
                "The token's signature does not match the issuer's keys.", sas.INVALID_SIGNATURE
            ) from error
        except jwt.PyJWTError as error:
            raise TokenRefused(
                "The token is not a JSON web token that this server can read.", sas.MALFORMED_TOKEN
            ) from error
        return fields

    def _key_of(self, header: dict[str, Any]) -> Any:
        if self._key is not None:
            return self._key
        key = self._keys.get(str(header.get("kid")))
        if key is None:
            raise TokenRefused("The token's key is not one of the issuer's.", sas.INVALID_SIGNATURE)
        return key

    def _rights_of(self, fields: dict[str, Any]) -> Rights:
        """The rights of all roles together; roles are a list, or words of a string."""
        held = fields.get(self._settings.roles_claim)
        roles = [held, *held.split()] if isinstance(held, str) else held
        rights = Rights.NONE
        for role in roles if isinstance(roles, list) else ():
            rights |= self._rights.get(str(role), Rights.NONE)
        if not rights:
            raise TokenRefused(
                "The token has no role that grants rights on this server.", sas.POLICY_NOT_FOUND
            )
        return rights


def _moment_ms(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    # JSON as Python reads it has NaN and infinite numbers.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -_SECONDS_MAX <= value <= _SECONDS_MAX:
        raise TokenRefused(f"The token's '{name}' is not a valid time.", sas.MALFORMED_TOKEN)
    return int(value * 1000)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error


def _library() -> Any:
    """PyJWT, which is needed only by servers with [jwt]."""
    try:
        import jwt
    except ImportError as error:
        raise ConfigError("[jwt] needs the library PyJWT: pip install 'partibus[jwt]'.") from error
    return jwt
