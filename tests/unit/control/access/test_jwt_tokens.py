"""JSON web tokens: which are accepted, what they allow, and what the file may say of them."""

import base64
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from partibus.control.access import sas
from partibus.control.access.access import AccessControl, require
from partibus.control.access.jwt_tokens import JwtSettings, JwtVerifier
from partibus.control.access.sas import TokenRefused
from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.definitions import parse_toml
from partibus.domain.errors import ConfigError, Unauthorized
from partibus.domain.rights import ALL_RIGHTS, Rights

NOW_MS = 1_700_000_000_000
SECRET = "0123456789abcdef0123456789abcdef"
ISSUER, AUDIENCE = "https://issuer.example/", "https://servicebus.azure.net/"
SENDER = "Azure Service Bus Data Sender"


@cache
def private_key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(number: int) -> bytes:
    return (
        private_key(number)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def fields(**changes: object) -> dict[str, object]:
    standard: dict[str, object] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": NOW_MS // 1000 + 60,
        "roles": [SENDER],
    }
    return {key: value for key, value in (standard | changes).items() if value is not None}


def hmac_token(**changes: object) -> str:
    return jwt.encode(fields(**changes), SECRET, algorithm="HS256")


@pytest.fixture
def settings(tmp_path: Path) -> JwtSettings:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return JwtSettings(issuer=ISSUER, audience=AUDIENCE, key_file=file)


@pytest.fixture
def verifier(settings: JwtSettings) -> JwtVerifier:
    return JwtVerifier(settings)


@pytest.mark.parametrize(
    ("roles", "rights"),
    [
        ([SENDER], Rights.SEND),
        (["Azure Service Bus Data Receiver"], Rights.LISTEN),
        ([SENDER, "Azure Service Bus Data Receiver", "other"], Rights.SEND | Rights.LISTEN),
        (["Azure Service Bus Data Owner"], ALL_RIGHTS),
        (SENDER, Rights.SEND),
    ],
)
def test_roles_give_rights_over_the_namespace(
    verifier: JwtVerifier, roles: object, rights: Rights
) -> None:
    grant = verifier.grant(hmac_token(roles=roles), "orders", NOW_MS)
    assert (grant.scope, grant.rights, grant.audience) == ("", rights, "orders")
    assert grant.expires_ms == NOW_MS + 60_000


def test_roles_may_have_other_names_and_another_place(settings: JwtSettings) -> None:
    own = JwtSettings(
        issuer=ISSUER,
        audience=AUDIENCE,
        key_file=settings.key_file,
        roles_claim="scp",
        roles={"bus.send": ("Send",), "bus.read": ("Listen",)},
    )
    grant = JwtVerifier(own).grant(hmac_token(scp="openid bus.send bus.read"), "q", NOW_MS)
    assert grant.rights == Rights.SEND | Rights.LISTEN


@pytest.mark.parametrize(
    ("change", "sub_code"),
    [
        ({"iss": "https://other.example/"}, sas.INVALID_AUDIENCE),
        ({"aud": "other"}, sas.INVALID_AUDIENCE),
        ({"exp": NOW_MS // 1000}, sas.EXPIRED_TOKEN),
        ({"nbf": NOW_MS // 1000 + 5}, sas.EXPIRED_TOKEN),
        ({"exp": None}, sas.MALFORMED_TOKEN),
        ({"exp": float("nan")}, sas.MALFORMED_TOKEN),
        ({"exp": float("inf")}, sas.MALFORMED_TOKEN),
        ({"exp": float("-inf")}, sas.MALFORMED_TOKEN),
        ({"exp": 1e308}, sas.MALFORMED_TOKEN),
        ({"exp": 10**400}, sas.MALFORMED_TOKEN),
        ({"exp": True}, sas.MALFORMED_TOKEN),
        ({"nbf": float("nan")}, sas.MALFORMED_TOKEN),
        ({"aud": None}, sas.MALFORMED_TOKEN),
        ({"iss": None}, sas.MALFORMED_TOKEN),
        ({"roles": ["stranger"]}, sas.POLICY_NOT_FOUND),
        ({"roles": None}, sas.POLICY_NOT_FOUND),
    ],
)
def test_what_is_wrong_with_a_token(
    verifier: JwtVerifier, change: dict[str, object], sub_code: int
) -> None:
    with pytest.raises(TokenRefused) as refused:
        verifier.grant(hmac_token(**change), "q", NOW_MS)
    assert refused.value.sub_code == sub_code


def test_a_token_of_another_secret_or_without_a_signature_is_refused(
    verifier: JwtVerifier,
) -> None:
    forged = jwt.encode(fields(), SECRET[::-1], algorithm="HS256")
    unsigned = jwt.encode(fields(), None, algorithm="none")
    for token in (forged, unsigned, "a.b.c", "", "x" * 20_000):
        with pytest.raises(TokenRefused) as refused:
            verifier.grant(token, "q", NOW_MS)
        assert SECRET not in refused.value.text


def test_a_public_key_is_never_taken_for_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(public_pem(1))
    verifier = JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, key_file=file))
    good = jwt.encode(fields(), private_key(1), algorithm="RS256")
    assert verifier.grant(good, "q", NOW_MS).rights == Rights.SEND
    wrong_key = jwt.encode(fields(), private_key(2), algorithm="RS256")
    confused = _signed_by_hand(public_pem(1))
    for token in (wrong_key, confused):
        with pytest.raises(TokenRefused) as refused:
            verifier.grant(token, "q", NOW_MS)
        assert refused.value.sub_code == sas.INVALID_SIGNATURE
    with pytest.raises(ConfigError, match="HS256 does not match"):
        JwtVerifier(
            JwtSettings(issuer=ISSUER, audience=AUDIENCE, key_file=file, algorithms=("HS256",))
        )


def _signed_by_hand(secret: bytes) -> str:
    """HS256 with a public key as its secret, which the library refuses to make."""
    import hmac

    def part(content: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=")

    text = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(fields())
    signature = hmac.digest(secret, text, "sha256")
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


def test_a_key_set_knows_its_keys_by_name(tmp_path: Path) -> None:
    algorithm = jwt.get_algorithm_by_name("RS256")
    keys = []
    for number in (1, 2):
        key = json.loads(algorithm.to_jwk(private_key(number).public_key()))  # type: ignore[attr-defined]
        keys.append(key | {"kid": f"key-{number}", "use": "sig", "alg": "RS256"})
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    verifier = JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_file=file))

    def token(number: int, kid: str | None) -> str:
        headers = None if kid is None else {"kid": kid}
        return jwt.encode(fields(), private_key(number), algorithm="RS256", headers=headers)

    for number in (1, 2):
        assert verifier.grant(token(number, f"key-{number}"), "q", NOW_MS).rights == Rights.SEND
    for wrong in (token(1, "key-2"), token(1, "key-3"), token(1, None)):
        with pytest.raises(TokenRefused):
            verifier.grant(wrong, "q", NOW_MS)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda file: None, "cannot be read"),
        (lambda file: file.write_text("short"), "at least 32 bytes"),
    ],
)
def test_keys_that_cannot_be_used(
    tmp_path: Path, write: Callable[[Path], object], text: str
) -> None:
    file = tmp_path / "key"
    write(file)
    with pytest.raises(ConfigError, match=text):
        JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, key_file=file))


def test_a_key_set_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text('{"keys": []}')
    with pytest.raises(ConfigError, match="not a JSON Web Key Set"):
        JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_file=file))


# --- as a credential ------------------------------------------------------------------------------


def test_access_control_takes_both_kinds(verifier: JwtVerifier) -> None:
    access = AccessControl(Catalog(), verifier)
    for text in (hmac_token(), f"Bearer {hmac_token()}"):
        grant = access.authenticate_token(text, "sb://host/Orders", NOW_MS)
        assert require([grant], "orders", Rights.SEND, NOW_MS) is grant
        with pytest.raises(Unauthorized):
            require([grant], "orders", Rights.LISTEN, NOW_MS)
        assert access.recheck(grant) is grant, "no policy can take it away"
    with pytest.raises(TokenRefused, match="malformed"):
        access.authenticate_token("SharedAccessSignature x", "q", NOW_MS)
    assert not AccessControl(Catalog()).accepts(hmac_token())


# --- [jwt] ----------------------------------------------------------------------------------------


def parsed(content: str) -> JwtSettings | None:
    return parse_toml(Path("/etc/bus/ns.toml"), content).jwt


def test_the_file_says_which_tokens() -> None:
    assert parsed("") is None
    settings = parsed(
        f"""
        [jwt]
        issuer = "{ISSUER}"
        audience = "{AUDIENCE}"
        jwks_file = "keys.json"
        algorithms = ["RS256", "ES256"]
        roles_claim = "scp"
        roles = {{ "bus.send" = ["Send"], "bus.all" = ["Manage", "Send", "Listen"] }}
        """
    )
    assert settings == JwtSettings(
        issuer=ISSUER,
        audience=AUDIENCE,
        jwks_file=Path("/etc/bus/keys.json"),
        algorithms=("RS256", "ES256"),
        roles_claim="scp",
        roles={"bus.send": ("Send",), "bus.all": ("Manage", "Send", "Listen")},
    )


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("issuer = 'i'", "'audience' is missing"),
        ("issuer = 'i'\naudience = 'a'", "one of key_file and jwks_file"),
        ("issuer = 'i'\naudience = 'a'\nkey_file = 'k'\njwks_file = 'j'", "one of key_file and"),
        ("issuer = 'i'\naudience = 'a'\nkey_file = 'k'\nsecret = 's'", "unknown key"),
        ("issuer = 'i'\naudience = 'a'\nkey_file = 'k'\nalgorithms = ['none']", "a list of HS256"),
        (
            "issuer = 'i'\naudience = 'a'\nkey_file = 'k'\nroles = {a = ['Fly']}",
            "is not a valid right",
        ),
    ],
)
def test_a_wrong_table_is_explained_with_its_place(lines: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        parsed(f"[jwt]\n{lines}")
    assert "ns.toml:" in refused.value.text
