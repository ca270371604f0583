"""Policies: what one may be, and the root policy of a fresh namespace."""

import base64

import pytest

from partibus.control.access.policies import (
    DEVELOPMENT_KEY,
    ROOT_POLICY_NAME,
    AccessPolicy,
    check_policy,
    ensure_root_policy,
    new_key,
)
from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import ArgumentError
from partibus.domain.rights import ALL_RIGHTS, Rights


def test_the_root_policy_on_loopback_has_the_emulators_key() -> None:
    catalog = Catalog()
    policy, has_new_key = ensure_root_policy(catalog, loopback_only=True)
    assert (policy.name, policy.primary_key) == ("RootManageSharedAccessKey", "SAS_KEY_VALUE")
    assert policy.rights == ALL_RIGHTS
    assert not has_new_key
    assert catalog.policy("", ROOT_POLICY_NAME) == policy


def test_the_root_policy_for_others_has_a_random_key() -> None:
    catalog = Catalog()
    policy, has_new_key = ensure_root_policy(catalog, loopback_only=False)
    assert has_new_key and policy.primary_key != DEVELOPMENT_KEY
    assert len(base64.b64decode(policy.primary_key)) == 32
    again = ensure_root_policy(catalog, loopback_only=False)
    assert again == (policy, False)


def test_the_published_key_is_replaced_when_others_can_reach_the_server() -> None:
    catalog = Catalog()
    ensure_root_policy(catalog, loopback_only=True)
    policy, has_new_key = ensure_root_policy(catalog, loopback_only=False)
    assert has_new_key
    assert DEVELOPMENT_KEY not in (policy.primary_key, policy.secondary_key)
    assert catalog.policy("", ROOT_POLICY_NAME) == policy


def test_a_published_key_that_the_file_declares_is_kept() -> None:
    catalog = Catalog()
    declared = AccessPolicy(ROOT_POLICY_NAME, DEVELOPMENT_KEY, "other", ALL_RIGHTS)
    catalog.put_policy("", declared)
    found = ensure_root_policy(catalog, loopback_only=False, declared=True)
    assert found == (declared, False)


@pytest.mark.rule("SAS-1")
def test_keys_are_256_random_bits() -> None:
    keys = {new_key() for _ in range(20)}
    assert len(keys) == 20
    assert all(len(base64.b64decode(key)) == 32 for key in keys)


@pytest.mark.rule("SAS-2")
@pytest.mark.parametrize(
    "rights", [Rights.MANAGE, Rights.MANAGE | Rights.SEND, Rights.MANAGE | Rights.LISTEN]
)
def test_manage_comes_with_send_and_listen(rights: Rights) -> None:
    with pytest.raises(ArgumentError, match="Manage, which must come with Send and Listen"):
        check_policy(AccessPolicy("p", "k", "k", rights))


@pytest.mark.parametrize("rights", [Rights.SEND, Rights.LISTEN, Rights.SEND | Rights.LISTEN])
def test_fewer_rights_are_fine(rights: Rights) -> None:
    check_policy(AccessPolicy("p", "k", "k", rights))


@pytest.mark.parametrize(
    "policy",
    [
        AccessPolicy("", "k", "k", Rights.SEND),
        AccessPolicy("a b", "k", "k", Rights.SEND),
        AccessPolicy("a&b", "k", "k", Rights.SEND),
        AccessPolicy("x" * 257, "k", "k", Rights.SEND),
        AccessPolicy("p", "", "k", Rights.SEND),
        AccessPolicy("p", "k", "", Rights.SEND),
        AccessPolicy("p", "k", "k", Rights.NONE),
    ],
)
def test_unusable_policies_are_refused(policy: AccessPolicy) -> None:
    with pytest.raises(ArgumentError):
        check_policy(policy)


def test_a_policy_in_a_log_gives_no_key_away() -> None:
    assert "secret" not in repr(AccessPolicy("p", "secret-1", "secret-2", Rights.SEND))
