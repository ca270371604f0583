"""Which fragment a message goes to.

Owns the choice of a fragment for a send. An entity that is not partitioned has exactly one
(SEED-2), so there is nothing to choose.
"""

from collections.abc import Sequence

from partibus.fragment.handle import Fragment


class Router:
    """The fragments of one entity, for one sender."""

    __slots__ = ("_fragments",)

    def __init__(self, fragments: Sequence[Fragment]) -> None:
        assert len(fragments) == 1, "only an entity with one fragment is routed"
        self._fragments = fragments

    def next_fragment(self) -> Fragment:
        """The fragment for the next send."""
        return self._fragments[0]
