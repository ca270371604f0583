"""The table [jwt] of a definitions file: which JSON web tokens the server accepts.

Owns the keys of that table and their valid values. It must never read a key file or check a token,
which is the work of `control.jwt_tokens`. Called where a definitions file is read.
"""

from typing import Final

from partibus.control.declared import fields
from partibus.control.declared.fields import Field, Table
from partibus.control.declared.source import DefinitionSource
from partibus.control.jwt_tokens import HMAC_ALGORITHMS, SIGNATURE_ALGORITHMS, JwtSettings
from partibus.domain.errors import ArgumentError
from partibus.domain.rights import rights_from_names

WHERE: Final = ("jwt",)
_KEYS: Final = (
    "issuer",
    "audience",
    "key_file",
    "jwks_file",
    "algorithms",
    "roles_claim",
    "roles",
)


def read_jwt(source: DefinitionSource, table: Table) -> JwtSettings | None:
    """The settings in the table; None when the file has none. Paths are relative to the file."""
    if not table:
        return None
    fields.refuse_unknown(source, WHERE, table, _KEYS)
    values: dict[str, object] = {
        "issuer": fields.required_text(source, WHERE, table, "issuer"),
        "audience": fields.required_text(source, WHERE, table, "audience"),
    }
    files = [key for key in ("key_file", "jwks_file") if key in table]
    if len(files) != 1:
        raise source.error(WHERE, "one of key_file and jwks_file is needed.")
    name = fields.required_text(source, WHERE, table, files[0])
    values[files[0]] = source.file.parent / name
    if "roles_claim" in table:
        values["roles_claim"] = fields.required_text(source, WHERE, table, "roles_claim")
    for key, read in (("algorithms", _algorithms), ("roles", _roles)):
        if key in table:
            values[key] = fields.read_value(source, (*WHERE, key), table[key], Field(key, read))
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
