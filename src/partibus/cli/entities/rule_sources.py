"""Where `partibus rule test` and `rule explain` take rules from: a file, or a live server.

Owns how subscriptions with their rules are read from either, checked as a server checks them. A
file is read into a temporary catalog; a server is queried over the management API, which Azure has
too. It must never change or send anything.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from partibus.cli.entities.namespace_file import toml_text
from partibus.cli.managing import atom_at
from partibus.cli.place import Place
from partibus.client.atom import AtomClient
from partibus.control.catalog.catalog import Catalog
from partibus.control.declared.apply import apply_definitions
from partibus.control.declared.definitions import parse_toml
from partibus.domain.address import path_key, subscription_path
from partibus.domain.entity import EntityKind, SubscriptionSpec, TopicSpec
from partibus.rules.check import check_rule
from partibus.server.config import resolve_configuration

_ON_ERRORS = "dead_lettering_on_filter_evaluation_exceptions"


class RuleSource(NamedTuple):
    """Subscriptions by path, the existing topics, and where they come from, as text."""

    subscriptions: dict[str, SubscriptionSpec]
    topics: list[str]
    origin: str

    def has_topic(self, name: str) -> bool:
        """Whether there is such a topic, in any case."""
        return path_key(name) in map(path_key, self.topics)

    def of_topic(self, name: str | None) -> list[str]:
        """The paths of a topic's subscriptions, or of all."""
        start = "" if name is None else path_key(subscription_path(name, ""))
        return [path for path in self.subscriptions if path_key(path).startswith(start)]

    def find(self, path: str) -> str | None:
        """The subscription at a path, which may omit the word Subscriptions."""
        topic, _, name = path.rpartition("/")
        wanted = (path_key(path), path_key(subscription_path(topic, name)))
        return next((known for known in self.subscriptions if path_key(known) in wanted), None)


def rules_of_file(file: Path) -> RuleSource:
    """The rules declared in a file."""
    configuration = resolve_configuration({"config": file}, {})
    catalog = Catalog(profile=configuration.settings.profile)
    assert configuration.definitions is not None
    apply_definitions(catalog, configuration.definitions)
    found = {
        record.path: record.spec
        for record in catalog.entities(EntityKind.SUBSCRIPTION)
        if isinstance(record.spec, SubscriptionSpec)
    }
    topics = [r.path for r in catalog.entities() if isinstance(r.spec, TopicSpec)]
    return RuleSource(found, topics, "in the file")


def rules_of_server(place: Place, topic: str | None) -> RuleSource:
    """The current rules of a server, of one topic or of all."""
    with atom_at(place) as atom:
        names = [str(one["name"]) for one in atom.list("topic")]
        wanted = [n for n in names if topic is None or path_key(n) == path_key(topic)]
        tables = [_topic_table(atom, name) for name in wanted]
    found: dict[str, SubscriptionSpec] = {}
    bare = {
        path_key(subscription_path(table["name"], child["name"]))
        for table in tables
        for child in table["subscription"]
        if not child["rule"]
    }
    for entity in parse_toml(Path(place.url), toml_text({"topic": tables})).entities:
        if isinstance(entity.spec, SubscriptionSpec):
            # In a file no rule means the rule $Default; here it means that nothing is selected.
            rules = () if path_key(entity.path) in bare else entity.spec.rules
            for rule in rules:
                check_rule(rule)
            found[entity.path] = replace(entity.spec, rules=rules)
    return RuleSource(found, names, f"at {place.url}")


def _topic_table(atom: AtomClient, topic: str) -> dict[str, Any]:
    children = [
        {
            "name": one["name"],
            _ON_ERRORS: bool(one.get(_ON_ERRORS, True)),
            "rule": list(atom.rules(topic, str(one["name"]))),
        }
        for one in atom.list("subscription", topic)
    ]
    return {"name": topic, "subscription": children}
