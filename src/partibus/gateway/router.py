"""Which fragment a message goes to.

Owns the choice of a fragment for each send of one link. The key decides where there is one: the
session id, else the partition key, else the message id where duplicates are detected (SEED-30,
SEED-32, SEED-35). Without a key messages go round robin, skipping fragments whose store is down
(SEED-39, SEED-40). An entity that is not partitioned has exactly one fragment, so there is no
choice (SEED-2).
"""

from collections.abc import Sequence

from partibus.domain.errors import InvalidOperation
from partibus.domain.partition_key import fragment_index
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, key_of


def fragment_of(fragments: Sequence[Fragment], key: str) -> Fragment:
    """The fragment that a key is bound to (SEED-28)."""
    return fragments[fragment_index(key, len(fragments))]


class Router:
    """The fragments of one entity, for one sender."""

    __slots__ = ("_fragments", "_near", "_next", "_splits_batches")

    def __init__(
        self,
        fragments: Sequence[Fragment],
        start: int,
        splits_batches: bool,
        near: Sequence[Fragment] = (),
    ) -> None:
        """Messages without a key go to a fragment of `near` as long as one of these can take them;
        for senders that ask each process for its own fragments."""
        self._fragments = fragments
        self._near = near
        self._next = start % len(fragments)
        """A random start for each sender, so that few messages do not all go to fragment 0."""
        self._splits_batches = splits_batches

    def next_keyless(self, tried: frozenset[int] = frozenset()) -> Fragment | None:
        """The next fragment in turn that can take a message; None when none is left to try."""
        if self._near:
            found = self._in_turn(self._near, tried)
            if found is not None:
                return found
        found = self._in_turn(self._fragments, tried)
        if found is not None or tried:
            return found
        # All are down: any of them returns the error.
        return self._fragments[self._next % len(self._fragments)]

    def _in_turn(self, fragments: Sequence[Fragment], tried: frozenset[int]) -> Fragment | None:
        count = len(fragments)
        for step in range(self._next, self._next + count):
            fragment = fragments[step % count]
            if fragment.is_available and fragment.index not in tried:
                self._next = (step + 1) % count
                return fragment
        return None

    def keyed(self, key: str) -> Fragment:
        """The fragment that a key is bound to, whether it is available or not (SEED-29)."""
        return fragment_of(self._fragments, key)

    def group(self, messages: list[NewMessage]) -> list[tuple[str | None, list[NewMessage]]]:
        """The parts of a batch that stay together, each with its key.

        A batch with one key, or none, is one part. Mixed keys are split where the profile
        allows it, and refused otherwise (BAT-3).
        """
        groups: dict[str | None, list[NewMessage]] = {}
        for message in messages:
            key = key_of(message)
            if key in groups:
                groups[key].append(message)
            else:
                groups[key] = [message]
        if len(groups) > 1 and not self._splits_batches:
            first, second = [f"'{key}'" if key is not None else "none" for key in groups][:2]
            raise InvalidOperation(
                "A batch for a partitioned entity must have one SessionId or PartitionKey (or "
                f"MessageId, where duplicates are detected); this one has {first} and {second}. "
                "Send them in separate batches."
            )
        return list(groups.items())
