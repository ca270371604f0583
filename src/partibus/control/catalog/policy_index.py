"""The access policies in memory, by their scope and by their name.

Owns both indexes and keeps them in step, scope by scope, so that the cost is proportional to the
change. It must never check anything; only the catalog writes it. A scope is a path in lower case,
"" for the namespace.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from partibus.control.access.policies import AccessPolicy

_NONE: Final[Mapping[str, AccessPolicy]] = MappingProxyType({})


class PolicyIndex:
    """All policies."""

    __slots__ = ("_by_name", "_by_scope")

    def __init__(self, policies: Iterable[tuple[str, AccessPolicy]] = ()) -> None:
        self._by_scope: dict[str, dict[str, AccessPolicy]] = {}
        self._by_name: dict[str, dict[str, AccessPolicy]] = {}
        for scope, policy in policies:
            self.put(scope, policy)

    def of_scope(self, scope: str) -> Mapping[str, AccessPolicy]:
        """The policies of a scope by name."""
        return self._by_scope.get(scope, _NONE)

    def named(self, name: str) -> Mapping[str, AccessPolicy]:
        """The policies of a name by scope."""
        return self._by_name.get(name, _NONE)

    @property
    def scopes(self) -> Mapping[str, Mapping[str, AccessPolicy]]:
        """Every scope that has policies."""
        return self._by_scope

    def put(self, scope: str, policy: AccessPolicy) -> None:
        """A new policy, or one that replaces that with its name."""
        self._by_scope.setdefault(scope, {})[policy.name] = policy
        self._by_name.setdefault(policy.name, {})[scope] = policy

    def remove(self, scope: str, name: str) -> None:
        """A policy was deleted; a missing one is ignored."""
        for index, outer, inner in ((self._by_scope, scope, name), (self._by_name, name, scope)):
            level = index.get(outer)
            if level is not None:
                level.pop(inner, None)
                if not level:
                    del index[outer]

    def replace(self, scope: str, policies: Iterable[AccessPolicy]) -> None:
        """Set all policies of a scope; those that it had keep their order."""
        new = {policy.name: policy for policy in policies}
        for name in list(self.of_scope(scope)):
            if name not in new:
                self.remove(scope, name)
        for policy in new.values():
            self.put(scope, policy)
