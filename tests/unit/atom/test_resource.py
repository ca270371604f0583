"""What paths name."""

import pytest

from partibus.atom.resource import Resource, Sort, parse_resource, rule_path, url_path
from partibus.domain.errors import ArgumentError


@pytest.mark.rule("ENT-10")
@pytest.mark.parametrize(
    ("raw", "sort", "entity", "subscription", "rule"),
    [
        (b"/q", Sort.ENTITY, "q", "", ""),
        (b"/a/b/c", Sort.ENTITY, "a/b/c", "", ""),
        (b"/a%2Fb", Sort.ENTITY, "a/b", "", ""),
        (b"/q/", Sort.ENTITY, "q", "", ""),
        (b"/$Resources/Queues", Sort.QUEUES, "", "", ""),
        (b"/$resources/topics/", Sort.TOPICS, "", "", ""),
        (b"/%24Resources/queues", Sort.QUEUES, "", "", ""),
        (b"/$resources/other", Sort.ENTITY, "$resources/other", "", ""),
        (b"/$namespaceinfo", Sort.NAMESPACE, "", "", ""),
        (b"/$NamespaceInfo", Sort.NAMESPACE, "", "", ""),
        (b"/t/Subscriptions/", Sort.SUBSCRIPTIONS, "t", "", ""),
        (b"/a/b/subscriptions", Sort.SUBSCRIPTIONS, "a/b", "", ""),
        (b"/t/subscriptions/s", Sort.SUBSCRIPTION, "t", "s", ""),
        (b"/a%2Fb/subscriptions/s", Sort.SUBSCRIPTION, "a/b", "s", ""),
        (b"/t/subscriptions/s/Rules/", Sort.RULES, "t", "s", ""),
        (b"/t/Subscriptions/s/rules/r", Sort.RULE, "t", "s", "r"),
        (b"/t/subscriptions/s/rules/$Default", Sort.RULE, "t", "s", "$Default"),
        (b"/t/subscriptions/rules", Sort.SUBSCRIPTION, "t", "rules", ""),
        (b"/subscriptions", Sort.ENTITY, "subscriptions", "", ""),
        (b"/rules", Sort.ENTITY, "rules", "", ""),
        (b"/", Sort.ENTITY, "", "", ""),
    ],
)
def test_paths(raw: bytes, sort: Sort, entity: str, subscription: str, rule: str) -> None:
    resource = parse_resource(raw)
    assert (resource.sort, resource.entity) == (sort, entity)
    assert (resource.subscription, resource.rule) == (subscription, rule)


def test_the_path_of_the_catalog() -> None:
    assert parse_resource(b"/T/subscriptions/S/rules/r").entity_path == "T/Subscriptions/S"
    assert Resource(Sort.ENTITY, "q", "q").entity_path == "q"


@pytest.mark.parametrize("raw", [b"/%ff", b"/a%00b", b"/a%0Ab", b"/a%1B"])
def test_paths_that_cannot_be_read(raw: bytes) -> None:
    with pytest.raises(ArgumentError):
        parse_resource(raw)


def test_addresses() -> None:
    assert url_path(rule_path("a/b", "s", "$Default")) == "a/b/Subscriptions/s/Rules/$Default"
    assert url_path("a b?c") == "a%20b%3Fc"
