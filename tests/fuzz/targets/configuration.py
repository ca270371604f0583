"""Texts that users write: definitions, the emulator's configuration, tokens, addresses."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fuzz.target import Target
from partibus.client.cbs import sas_token
from partibus.control.access import sas
from partibus.control.access.jwt_tokens import JwtSettings, JwtVerifier
from partibus.control.declared.definitions import Definitions, parse_toml
from partibus.control.declared.emulator_config import parse_emulator_config
from partibus.control.declared.limits_config import with_limits
from partibus.domain.address import parse_address, path_key, resource_path
from partibus.domain.duration import format_duration, format_span_us, parse_duration, parse_span_us
from partibus.domain.errors import BusError
from partibus.domain.limits import SELFHOST
from partibus.domain.quantities import moment_ms, size_bytes
from partibus.domain.refusal import PropertyRefused
from partibus.rules.check import check_rule
from support.repository import ROOT

EXAMPLES: Final = ROOT / "examples"
SECRET: Final = "a shared secret of more than 32 bytes"
NOW_MS: Final = 1_700_000_000_000


def definitions(data: bytes) -> None:
    """Our own file."""
    found = parse_toml(Path("bus.toml"), data.decode("utf-8", "replace"))
    with_limits(SELFHOST, found.source, found.limits)
    _check_rules(found)


def emulator(data: bytes) -> None:
    """The file of the vendor's emulator."""
    _check_rules(parse_emulator_config(Path("Config.json"), data.decode("utf-8", "replace")))


def _check_rules(found: Definitions) -> None:
    for entity in found.entities:
        for rule in getattr(entity.spec, "rules", ()):
            check_rule(rule)
        found.source.property_error(entity.where, "name", "for its line")


DEFINITIONS_SEED: Final = b"""
[server]
port = 5672
[limits]
queues_max = 10
[[policy]]
name = "p"
rights = ["Send", "Listen"]
key = "k"
[[queue]]
name = "q"
lock_duration = "PT30S"
max_delivery_count = 3
[[topic]]
name = "t"
[[topic.subscription]]
name = "s"
[[topic.subscription.rule]]
name = "r"
sql_filter = "a = @b"
parameters = { "@b" = 1 }
"""


# --- tokens -------------------------------------------------------------------------------------


@cache
def _verifier() -> JwtVerifier:
    with TemporaryDirectory() as place:
        key = Path(place) / "key"
        key.write_text(SECRET, encoding="utf-8")
        return JwtVerifier(JwtSettings(issuer="us", audience="bus", key_file=key))


def token(data: bytes) -> None:
    """A token of $cbs or of an HTTP header: a shared access signature, or a JSON web token."""
    text = data.decode("utf-8", "replace")
    sas.key_name(text)
    if text.startswith(sas.TOKEN_PREFIX):
        sas.verify(sas.parse_token(text), SECRET)
    else:
        _verifier().grant(text, "q", NOW_MS)


def _token_seeds() -> list[bytes]:
    import jwt

    claims = {"iss": "us", "aud": "bus", "exp": 2_000_000_000, "roles": ["Sender"]}
    made = [
        sas_token("sb://bus/q", "Root", SECRET, 2_000_000_000),
        sas_token("https://ns.servicebus.windows.net/a/b?x=1", "p", SECRET, 1),
        jwt.encode(claims, SECRET, algorithm="HS256"),
        jwt.encode({"exp": 1e300}, SECRET, algorithm="HS256", headers={"kid": "x"}),
    ]
    return [text.encode() for text in made]


# --- small texts --------------------------------------------------------------------------------


def address(data: bytes) -> None:
    """The address of a link, or the resource of a token."""
    text = data.decode("utf-8", "replace")
    parse_address(text)
    resource_path(text)
    path_key(text)


def quantity(data: bytes) -> None:
    """Durations, moments and sizes; what can be read can be written and read again."""
    text = data.decode("utf-8", "replace")
    for read in (parse_duration, parse_span_us, moment_ms, size_bytes):
        try:
            value = read(text)
        except BusError:
            continue
        if read is parse_duration:
            assert parse_duration(format_duration(value)) == value
        elif read is parse_span_us:
            assert parse_span_us(format_span_us(value)) == value


TARGETS: Final = (
    Target(
        name="definitions",
        takes="a definitions file in TOML",
        execute=definitions,
        answers=(BusError, PropertyRefused),
        seeds=lambda: [DEFINITIONS_SEED, (EXAMPLES / "namespace.toml").read_bytes()[:4000]],
    ),
    Target(
        name="emulator-config",
        takes="a Config.json of the vendor's emulator",
        execute=emulator,
        answers=(BusError, PropertyRefused),
        seeds=lambda: [(EXAMPLES / "emulator.json").read_bytes()],
    ),
    Target(
        name="tokens",
        takes="a shared access signature or a JSON web token",
        execute=token,
        answers=(BusError,),
        seeds=_token_seeds,
    ),
    Target(
        name="addresses",
        takes="the address of a link",
        execute=address,
        answers=(BusError,),
        seeds=lambda: [
            b"sb://bus/topic/Subscriptions/s/$deadletterqueue",
            b"q/$Transfer/$DeadLetterQueue/$management",
        ],
    ),
    Target(
        name="quantities",
        takes="a duration, a moment or a size",
        execute=quantity,
        answers=(),
        seeds=lambda: [b"P1DT2H3M4.5S", b"-PT1S", b"2024-06-01T12:00:00Z", b"64M", b"now-5m"],
    ),
)
