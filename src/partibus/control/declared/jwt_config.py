"""The table [jwt] of a definitions file: which JSON web tokens the server accepts.

Owns the keys of that table and their valid values. It must never read a key file or check a token,
which is the work of `control.access.jwt_tokens`. Called where a definitions file is read.
"""

from typing import Final

from partibus.control.access.jwt_tokens import HMAC_ALGORITHMS, SIGNATURE_ALGORITHMS, JwtSettings
from partibus.control.declared.fields import Section
from partibus.domain.errors import ArgumentError
from partibus.domain.rights import rights_from_names

_KEYS: Final = (
    "issuer",
    "audience",
    "key_file",
    "jwks_file",
    "algorithms",
    "roles_claim",
    "roles",
)


def read_jwt(jwt: Section) -> JwtSettings | None:
    """The settings in the table; None when the file has none. Paths are relative to the file."""
    table = jwt.table
    if not table:
        return None
    jwt.refuse_unknown(_KEYS)
    values: dict[str, object] = {"issuer": jwt.text("issuer"), "audience": jwt.text("audience")}
    files = [key for key in ("key_file", "jwks_file") if key in table]
    if len(files) != 1:
        raise jwt.source.error(jwt.where, "one of key_file and jwks_file is needed.")
    values[files[0]] = jwt.source.file.parent / jwt.text(files[0])
    if "roles_claim" in table:
        values["roles_claim"] = jwt.text("roles_claim")
    if "algorithms" in table:
        values["algorithms"] = jwt.read("algorithms", _algorithms)
    if "roles" in table:
        values["roles"] = jwt.read("roles", _roles)
    return JwtSettings(**values)  # type: ignore[arg-type]  # each was read by its own reader


def _algorithms(value: object) -> tuple[str, ...]:
    known = (*HMAC_ALGORITHMS, *SIGNATURE_ALGORITHMS)
    if not isinstance(value, list) or not value or any(name not in known for name in value):
        raise ArgumentError(f"expected a list of {', '.join(known)}.")
    return tuple(value)


def _roles(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ArgumentError('expected a table, for example "sender" = ["Send"].')
    for names in value.values():
        if not isinstance(names, list):
            raise ArgumentError('the rights of a role are a list, for example ["Send"].')
        rights_from_names(map(str, names))
    return {role: tuple(names) for role, names in value.items()}
