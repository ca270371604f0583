"""What paths name."""

import pytest

from partibus.atom.resource import Resource, ResourceKind, parse_resource, rule_path, url_path
from partibus.domain.errors import ArgumentError


@pytest.mark.rule("ENT-10")
@pytest.mark.parametrize(
    ("raw", "sort", "entity", "subscription", "rule"),
    [
        (b"/q", ResourceKind.ENTITY, "q", "", ""),
        (b"/a/b/c", ResourceKind.ENTITY, "a/b/c", "", ""),
        (b"/a%2Fb", ResourceKind.ENTITY, "a/b", "", ""),
        (b"/q/", ResourceKind.ENTITY, "q", "", ""),
        (b"/$Resources/Queues", ResourceKind.QUEUES, "", "", ""),
        (b"/$resources/topics/", ResourceKind.TOPICS, "", "", ""),
        (b"/%24Resources/queues", ResourceKind.QUEUES, "", "", ""),
        (b"/$resources/other", ResourceKind.ENTITY, "$resources/other", "", ""),
        (b"/$namespaceinfo", ResourceKind.NAMESPACE, "", "", ""),
        (b"/$NamespaceInfo", ResourceKind.NAMESPACE, "", "", ""),
        (b"/t/Subscriptions/", ResourceKind.SUBSCRIPTIONS, "t", "", ""),
        (b"/a/b/subscriptions", ResourceKind.SUBSCRIPTIONS, "a/b", "", ""),
        (b"/t/subscriptions/s", ResourceKind.SUBSCRIPTION, "t", "s", ""),
        (b"/a%2Fb/subscriptions/s", ResourceKind.SUBSCRIPTION, "a/b", "s", ""),
        (b"/t/subscriptions/s/Rules/", ResourceKind.RULES, "t", "s", ""),
        (b"/t/Subscriptions/s/rules/r", ResourceKind.RULE, "t", "s", "r"),
        (b"/t/subscriptions/s/rules/$Default", ResourceKind.RULE, "t", "s", "$Default"),
        (b"/t/subscriptions/rules", ResourceKind.SUBSCRIPTION, "t", "rules", ""),
        (b"/subscriptions", ResourceKind.ENTITY, "subscriptions", "", ""),
        (b"/rules", ResourceKind.ENTITY, "rules", "", ""),
        (b"/", ResourceKind.ENTITY, "", "", ""),
    ],
)
def test_paths(raw: bytes, sort: ResourceKind, entity: str, subscription: str, rule: str) -> None:
    resource = parse_resource(raw)
    assert (resource.kind, resource.entity) == (sort, entity)
    assert (resource.subscription, resource.rule) == (subscription, rule)


def test_the_path_of_the_catalog() -> None:
    assert parse_resource(b"/T/subscriptions/S/rules/r").entity_path == "T/Subscriptions/S"
    assert Resource(ResourceKind.ENTITY, "q", "q").entity_path == "q"


@pytest.mark.parametrize("raw", [b"/%ff", b"/a%00b", b"/a%0Ab", b"/a%1B"])
def test_paths_that_cannot_be_read(raw: bytes) -> None:
    with pytest.raises(ArgumentError):
        parse_resource(raw)


def test_addresses() -> None:
    assert url_path(rule_path("a/b", "s", "$Default")) == "a/b/Subscriptions/s/Rules/$Default"
    assert url_path("a b?c") == "a%20b%3Fc"
