"""Credentials in, grants out."""

import pytest

from partibus.client.cbs import sas_token
from partibus.control.access import sas
from partibus.control.access.access import AccessControl, Grant, require
from partibus.control.access.policies import AccessPolicy
from partibus.control.access.sas import TokenRefused
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import Unauthorized
from partibus.domain.rights import ALL_RIGHTS, Rights

NOW_MS = 1_700_000_000_000
LATER_S = 1_700_003_600


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.create("Q1", QueueSpec())
    catalog.create("q10", QueueSpec())
    catalog.put_policy("", AccessPolicy("Root", "root-1", "root-2", ALL_RIGHTS))
    catalog.put_policy("q1", AccessPolicy("Sender", "send-1", "send-2", Rights.SEND))
    catalog.put_policy("q10", AccessPolicy("Sender", "other-1", "other-2", Rights.LISTEN))
    return catalog


@pytest.fixture
def access(catalog: Catalog) -> AccessControl:
    return AccessControl(catalog)


def refusal(access: AccessControl, token: str, audience: str = "sb://h/q1") -> TokenRefused:
    with pytest.raises(TokenRefused) as caught:
        access.authenticate_token(token, audience, NOW_MS)
    return caught.value


@pytest.mark.rule("SAS-6")
def test_a_token_grants_its_policys_rights_on_its_resource(access: AccessControl) -> None:
    token = sas_token("sb://somewhere:5672/Q1", "Sender", "send-1", LATER_S)
    grant = access.authenticate_token(token, "sb://elsewhere/q1", NOW_MS)
    assert grant == Grant("q1", Rights.SEND, LATER_S * 1000, "q1")
    for path in ("q1", "q1/$management", "q1/$deadletterqueue"):
        assert grant.allows(path, Rights.SEND, NOW_MS)
    for path in ("", "q10", "q"):
        assert not grant.allows(path, Rights.SEND, NOW_MS)
    assert not grant.allows("q1", Rights.LISTEN, NOW_MS)


@pytest.mark.rule("SAS-3", "SAS-6")
def test_a_namespace_policy_signs_for_any_entity(access: AccessControl) -> None:
    token = sas_token("sb://h/q1", "Root", "root-1", LATER_S)
    grant = access.authenticate_token(token, "sb://h/q1/$management", NOW_MS)
    assert (grant.scope, grant.rights, grant.audience) == ("q1", ALL_RIGHTS, "q1/$management")


@pytest.mark.rule("SAS-6")
def test_a_namespace_token_serves_every_audience(access: AccessControl) -> None:
    token = sas_token("https://h", "Root", "root-1", LATER_S)
    for audience in ("sb://h/q1", "amqp://h/t/Subscriptions/s", "sb://h"):
        assert access.authenticate_token(token, audience, NOW_MS).scope == ""


@pytest.mark.rule("SAS-6", "FWD-3")
def test_a_resource_may_be_the_bare_name_of_the_host(
    access: AccessControl, catalog: Catalog
) -> None:
    for uri, host in (("localhost", "LocalHost:5300"), ("localhost/q1", "localhost")):
        token = sas_token(uri, "Root", "root-1", LATER_S)
        assert access.authenticate_token(token, "/q1", NOW_MS, host).rights == ALL_RIGHTS
        assert refusal(access, token).sub_code == sas.INVALID_AUDIENCE
    token = sas_token("localhost", "Root", "root-1", LATER_S)
    with pytest.raises(TokenRefused):
        access.authenticate_token(token, "/q1", NOW_MS, "other")
    # An entity of that name is meant before the host: its token opens nothing else.
    catalog.create("localhost", QueueSpec())
    with pytest.raises(TokenRefused):
        access.authenticate_token(token, "/q1", NOW_MS, "localhost")
    assert access.authenticate_token(token, "/localhost", NOW_MS, "localhost").scope == "localhost"


@pytest.mark.rule("SAS-7")
def test_either_key_is_good(access: AccessControl, catalog: Catalog) -> None:
    for key in ("root-1", "root-2"):
        access.authenticate_token(sas_token("sb://h/q1", "Root", key, LATER_S), "sb://h/q1", NOW_MS)
    catalog.put_policy("", AccessPolicy("Root", "root-3", "root-1", ALL_RIGHTS))
    access.authenticate_token(
        sas_token("sb://h/q1", "Root", "root-1", LATER_S), "sb://h/q1", NOW_MS
    )
    error = refusal(access, sas_token("sb://h/q1", "Root", "root-2", LATER_S))
    assert error.sub_code == sas.INVALID_SIGNATURE


@pytest.mark.rule("SAS-11")
def test_refusals_tell_what_was_wrong(access: AccessControl) -> None:
    wrong_key = refusal(access, sas_token("sb://h/q1", "Root", "guess", LATER_S))
    assert (wrong_key.sub_code, "signature" in wrong_key.text) == (40103, True)
    elsewhere = refusal(access, sas_token("sb://h/q10", "Root", "root-1", LATER_S))
    assert (elsewhere.sub_code, "audience" in elsewhere.text) == (40104, True)
    expired = refusal(access, sas_token("sb://h/q1", "Root", "root-1", NOW_MS // 1000))
    assert (expired.sub_code, "expired" in expired.text) == (40106, True)
    unknown = refusal(access, sas_token("sb://h/q1", "Nobody", "root-1", LATER_S))
    assert "policy 'Nobody'" in unknown.text
    assert refusal(access, "nonsense").sub_code == 40105
    for error in (wrong_key, elsewhere, expired, unknown):
        assert error.http_status == 401


@pytest.mark.rule("SAS-6")
def test_an_entitys_policy_signs_for_nothing_above_or_beside_it(access: AccessControl) -> None:
    above = refusal(access, sas_token("sb://h/", "Sender", "send-1", LATER_S))
    assert above.sub_code == sas.POLICY_NOT_FOUND
    beside = refusal(access, sas_token("sb://h/q10", "Sender", "send-1", LATER_S), "sb://h/q10")
    assert beside.sub_code == sas.INVALID_SIGNATURE


def test_policies_of_one_name_are_told_apart_by_their_place(access: AccessControl) -> None:
    token = sas_token("sb://h/q10", "Sender", "other-1", LATER_S)
    grant = access.authenticate_token(token, "sb://h/q10", NOW_MS)
    assert (grant.scope, grant.rights) == ("q10", Rights.LISTEN)


def test_a_changed_resource_breaks_the_signature(access: AccessControl) -> None:
    token = sas_token("sb://h/q1", "Root", "root-1", LATER_S).replace("%2Fq1", "%2Fq10")
    assert refusal(access, token, "sb://h/q10").sub_code == sas.INVALID_SIGNATURE


def test_policies_of_a_deleted_entity_are_gone(access: AccessControl, catalog: Catalog) -> None:
    token = sas_token("sb://h/q1", "Sender", "send-1", LATER_S)
    access.authenticate_token(token, "sb://h/q1", NOW_MS)
    catalog.delete("q1")
    assert refusal(access, token).sub_code == sas.POLICY_NOT_FOUND


def test_a_claim_ends_with_its_token() -> None:
    grant = Grant("q1", ALL_RIGHTS, NOW_MS)
    assert grant.allows("q1", Rights.SEND, NOW_MS - 1)
    assert not grant.allows("q1", Rights.SEND, NOW_MS)


def test_plain_gives_a_claim_wherever_the_key_fits(access: AccessControl) -> None:
    assert access.authenticate_plain("Root", "root-2") == (Grant("", ALL_RIGHTS, None, ""),)
    assert access.authenticate_plain("Sender", "send-1") == (Grant("q1", Rights.SEND, None, "q1"),)


@pytest.mark.parametrize(
    ("name", "key"), [("Root", "send-1"), ("Nobody", "root-1"), ("Root", ""), ("", "")]
)
def test_plain_refuses_what_does_not_fit(access: AccessControl, name: str, key: str) -> None:
    with pytest.raises(Unauthorized):
        access.authenticate_plain(name, key)


@pytest.mark.rule("SAS-11")
def test_a_missing_right_is_named() -> None:
    grants = [Grant("q1", Rights.LISTEN, None)]
    assert require(grants, "Q1", Rights.LISTEN, NOW_MS) is grants[0]
    with pytest.raises(Unauthorized, match=r"'Send' claim\(s\) are required") as caught:
        require(grants, "Q1", Rights.SEND, NOW_MS)
    assert "'Q1'" in caught.value.text


@pytest.mark.rule("SAS-6", "HTP-1")
@pytest.mark.parametrize("below", ["messages", "Messages/Head?timeout=5", "messages/17/a-lock"])
def test_a_token_for_the_address_of_a_request_is_one_for_its_entity(
    access: AccessControl, below: str
) -> None:
    token = sas_token(f"https://h/q1/{below}", "Sender", "send-1", LATER_S)
    grant = access.authenticate_request(token, "q1", NOW_MS)
    assert (grant.scope, grant.rights) == ("q1", Rights.SEND)
    # Over AMQP a token means what it says.
    assert refusal(access, token).sub_code == sas.INVALID_AUDIENCE
    with pytest.raises(TokenRefused):
        access.authenticate_request(token, "q10", NOW_MS)
    with pytest.raises(TokenRefused):
        access.authenticate_request(token, "", NOW_MS)


@pytest.mark.rule("SAS-6", "HTP-1")
def test_an_entity_called_as_a_request_is_an_entity(
    access: AccessControl, catalog: Catalog
) -> None:
    token = sas_token("https://h/q1/messages", "Root", "root-1", LATER_S)
    assert access.authenticate_request(token, "q1", NOW_MS).scope == "q1"
    catalog.create("q1/messages", QueueSpec())
    catalog.put_policy("q1/messages", AccessPolicy("Inner", "in-1", "in-2", ALL_RIGHTS))
    for signed in (token, sas_token("https://h/q1/messages", "Inner", "in-1", LATER_S)):
        assert access.authenticate_request(signed, "q1/messages", NOW_MS).scope == "q1/messages"
        with pytest.raises(TokenRefused):
            access.authenticate_request(signed, "q1", NOW_MS)
    # Nor does a policy of the inner entity sign for the address of a lock.
    below = sas_token("https://h/q1/messages/17/a-lock", "Inner", "in-1", LATER_S)
    with pytest.raises(TokenRefused):
        access.authenticate_request(below, "q1", NOW_MS)
