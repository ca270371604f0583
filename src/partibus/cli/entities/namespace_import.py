"""Applying a file to a running server, entity by entity.

Owns the order (destinations before those that forward to them, topics before subscriptions, new
rules before the default one is deleted) and the comparison with the current state. It must never
delete anything except the default rule of a new subscription. Called by `namespace import`.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from partibus.cli.entities.namespace_file import Declared, local_path
from partibus.client.atom import AtomClient
from partibus.client.errors import AtomError
from partibus.domain.entity_properties import PROPERTIES

Verdict = Literal["created", "updated", "same", "differs"]
DEFAULT_RULE: Final = "$Default"
_FORWARDS: Final = ("forward_to", "forward_dead_lettered_messages_to")


@dataclass(slots=True, frozen=True)
class Result:
    """The result for one entity; `differences` name properties and rules."""

    path: str
    kind: str
    verdict: Verdict
    differences: tuple[str, ...] = ()


class Import:
    """One run over the declared entities."""

    def __init__(self, atom: AtomClient, *, update: bool, dry_run: bool) -> None:
        self._atom = atom
        self._update = update
        self._dry_run = dry_run
        self._forwarding: list[tuple[Declared, dict[str, Any]]] = []

    def take(self, declared: Declared) -> Result:
        """Create, compare or update one entity; its forwarding waits for `finish`."""
        try:
            found = self._atom.get(declared.kind, declared.path)
        except AtomError as error:
            if error.status != 404:
                raise
            return self._create(declared)
        return self._compare(declared, found)

    def finish(self) -> None:
        """Set the forwarding: every destination exists now."""
        for declared, forwards in self._forwarding:
            self._atom.update(declared.kind, declared.path, forwards)

    def _create(self, declared: Declared) -> Result:
        result = Result(declared.path, declared.kind, "created")
        if self._dry_run:
            return result
        forwards = {k: declared.fields[k] for k in _FORWARDS if declared.fields.get(k)}
        plain = {k: v for k, v in declared.fields.items() if k not in _FORWARDS and v != ""}
        self._atom.create(declared.kind, declared.path, plain)
        if forwards:
            self._forwarding.append((declared, forwards))
        if declared.kind == "subscription":
            self._put_rules(declared, {DEFAULT_RULE: {"name": DEFAULT_RULE}})
        return result

    def _compare(self, declared: Declared, found: dict[str, Any]) -> Result:
        changed = {
            field.key: declared.fields[field.key]
            for field in PROPERTIES[declared.kind]
            if field.key in declared.fields
            and _normalised(found.get(field.key, "")) != _normalised(declared.fields[field.key])
        }
        rules = self._rules(declared) if declared.kind == "subscription" else {}
        wanted = {rule["name"]: rule for rule in declared.rules}
        odd = [name for name in {**rules, **wanted} if rules.get(name) != wanted.get(name)]
        differences = (*changed, *(f"rule {name}" for name in odd))
        if not differences:
            return Result(declared.path, declared.kind, "same")
        if not self._update:
            return Result(declared.path, declared.kind, "differs", differences)
        if not self._dry_run:
            if changed:
                self._atom.update(declared.kind, declared.path, changed)
            if odd:
                self._put_rules(declared, rules)
        return Result(declared.path, declared.kind, "updated", differences)

    def _rules(self, declared: Declared) -> dict[str, Any]:
        topic, _, name = declared.path.partition("/Subscriptions/")
        return {rule["name"]: rule for rule in self._atom.rules(topic, name)}

    def _put_rules(self, declared: Declared, found: dict[str, Any]) -> None:
        topic, _, name = declared.path.partition("/Subscriptions/")
        for rule in declared.rules:
            if rule["name"] not in found:
                self._atom.put_rule(topic, name, rule)
            elif found[rule["name"]] != rule:
                self._atom.change_rule(topic, name, rule)
        if DEFAULT_RULE in found and DEFAULT_RULE not in [r["name"] for r in declared.rules]:
            self._atom.delete_rule(topic, name, DEFAULT_RULE)


def _normalised(value: object) -> object:
    """A value as both sides write it: forwarding addresses have a host on one side only."""
    return local_path(value).lower() if isinstance(value, str) and "://" in value else value
