"""Tokens: the stock client's own as the oracle, and everything that is not a token."""

import base64
import hashlib
import hmac
from urllib.parse import quote

import pytest
from azure.servicebus._base_handler import _generate_sas_token
from azure.servicebus._pyamqp.utils import generate_sas_token
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.client.cbs import sas_token
from partibus.control.access.sas import MALFORMED_TOKEN, TokenRefused, key_name, parse_token, verify
from partibus.domain.errors import Unauthorized

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,12}[A-Za-z0-9])?", fullmatch=True)
KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
URIS = st.builds(
    lambda host, path: f"sb://{host}:5672/{path}", NAMES, st.lists(NAMES, max_size=3).map("/".join)
)
EXPIRIES = st.integers(min_value=1, max_value=10**11)


@pytest.mark.rule("SAS-5")
@settings(deadline=None)
@given(uri=URIS, policy=NAMES, key=KEYS, expires_s=EXPIRIES)
def test_the_clients_tokens_are_understood(uri: str, policy: str, key: str, expires_s: int) -> None:
    token = parse_token(generate_sas_token(uri, policy, key, expires_s))
    assert verify(token, key)
    assert not verify(token, key + "x")
    assert token.policy == policy
    assert token.expires_ms == expires_s * 1000
    assert token.resource_path == uri.split("/", 3)[3].lower()


@pytest.mark.rule("SAS-5")
@settings(deadline=None)
@given(uri=URIS, policy=NAMES, key=KEYS, expires_s=EXPIRIES)
def test_our_tokens_are_the_clients_own(uri: str, policy: str, key: str, expires_s: int) -> None:
    assert sas_token(uri, policy, key, expires_s) == generate_sas_token(uri, policy, key, expires_s)


def test_a_token_of_the_clients_credential() -> None:
    access = _generate_sas_token("https://localhost", "Root", "key")
    token = parse_token(access.token)
    assert verify(token, "key")
    assert token.resource_path == ""
    assert token.expires_ms == access.expires_on * 1000


def javascript_token(uri: str, policy: str, key: str, expires_s: int) -> str:
    """The JS administration client: lower-cased address and escapes, fields in its own order."""
    resource = quote(uri.lower(), safe="").lower()
    digest = hmac.digest(key.encode(), f"{resource}\n{expires_s}".encode(), hashlib.sha256)
    signature = quote(base64.b64encode(digest).decode(), safe="")
    return f"SharedAccessSignature sig={signature}&se={expires_s}&skn={policy}&sr={resource}"


@pytest.mark.rule("SAS-5")
def test_fields_in_any_order_and_escapes_in_any_case() -> None:
    token = parse_token(javascript_token("sb://Host:5672/A/Queue", "Root", "key", 99))
    assert token.resource_path == "a/queue"
    assert verify(token, "key")


@pytest.mark.rule("SAS-5")
def test_the_key_is_text_not_base64() -> None:
    key = base64.b64encode(b"k" * 32).decode()
    resource = "sb%3a%2f%2fhost%2fq"
    wrong = hmac.digest(base64.b64decode(key), f"{resource}\n9".encode(), hashlib.sha256)
    text = f"SharedAccessSignature sr={resource}&se=9&skn=p&sig={quote(base64.b64encode(wrong))}"
    assert not verify(parse_token(text), key)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("my.servicebus.windows.net/q1", "q1"),
        ("localhost:5672/q1", "q1"),
        ("MY.ServiceBus.Windows.Net", ""),
        # No scheme and no sign of a host: a path, lest a narrow token become a wide one.
        ("orders.v1", "orders.v1"),
        ("orders.v1/$management", "orders.v1/$management"),
    ],
)
def test_resources_without_a_scheme(resource: str, expected: str) -> None:
    assert parse_token(sas_token(resource, "p", "k", 1)).resource_path == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begin with"),
        ("Bearer abc", "begin with"),
        ("SharedAccessSignature ", "'sr' is missing"),
        ("SharedAccessSignature sr=a&sig=b&se=1", "'skn' is missing"),
        ("SharedAccessSignature sr=a&sig=&se=1&skn=p", "'sig' is missing"),
        ("SharedAccessSignature sr=a&sr=b&sig=c&se=1&skn=p", "'sr' appears twice"),
        ("SharedAccessSignature sr=a&sig=b&se=tomorrow&skn=p", "'se' must be"),
        ("SharedAccessSignature sr=a&sig=b&se=-1&skn=p", "'se' must be"),
        ("SharedAccessSignature sr=a&sig=b&se=" + "9" * 99 + "&skn=p", "'se' must be"),
        ("SharedAccessSignature sr=" + "a" * 20_000, "begin with"),
    ],
)
def test_malformed_tokens_say_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason) as caught:
        parse_token(text)
    assert caught.value.sub_code == MALFORMED_TOKEN
    assert isinstance(caught.value, Unauthorized)
    assert caught.value.condition == "amqp:unauthorized-access"


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=30))
def test_no_text_passes_by_accident(body: str, sig: str) -> None:
    for text in (
        body,
        f"SharedAccessSignature {body}",
        f"SharedAccessSignature sr=q&se=9&skn=p&sig={sig}",
    ):
        try:
            token = parse_token(text)
        except Unauthorized:
            continue
        assert not verify(token, "key")


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (sas_token("sb://h/q", "t1.reader", "k", 1), "t1.reader"),
        ("SharedAccessSignature skn=a%20b&sr=x", "a b"),
        ("SharedAccessSignature sr=x&sig=y", ""),
        ("eyJhbGciOi.J9", ""),
        ("", ""),
    ],
)
def test_the_name_of_the_key_is_read_without_a_check(token: str, name: str) -> None:
    assert key_name(token) == name
