"""A store that was written before checkpoints had pages opens with all that it held."""

import json
import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partibus.fragment.message import Held
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.spec import FragmentSpec
from partibus.store.files.log import SegmentStore
from partibus.testing.fragment import FragmentBench
from support.archives import unpack

BEFORE_PAGES = Path(__file__).parent / "data" / "before-pages.tar.xz"
"""Fragments that were checkpointed and then changed again, as the release before has left them: of
each the directory NAME, and in NAME.json what `summary` said of it."""
SPECS = {
    "plain": FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q"),
    "sessions": FragmentSpec(
        lock_duration_ms=30_000, max_delivery_count=3, requires_session=True, path="q"
    ),
    "duplicates": FragmentSpec(
        lock_duration_ms=30_000, max_delivery_count=3, duplicate_window_ms=600_000, path="q"
    ),
}


class Stored:
    """A fragment on the files of a store."""

    def __init__(self, directory: Path, spec: FragmentSpec) -> None:
        self.news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = SegmentStore(directory, notify=self.news.put)
        self.bench = FragmentBench(spec, self.store)

    def run(self) -> None:
        """Until nothing waits for the store any more."""
        bench = self.bench
        bench.run()
        while not bench.broker.is_at_rest or bench.broker._upkeep._is_checkpointing:
            self.news.get(timeout=20)()
            bench.run()

    def shown(self, held: Held) -> list[Any]:
        (body,) = self.store.read_now([(held.position, held.length)]) or [b"?"]
        overlay = held.overlay
        laid = None if overlay is None else [overlay.properties.hex(), overlay.reason]
        times = [held.enqueued_ms, held.expires_ms]
        return [held.sequence, body.hex(), held.delivery_count, int(held.state), *times, laid]

    def rows(self, table: MessageTable) -> list[Any]:
        return [self.shown(held) for held in table.copies(0)]

    def summary(self) -> Any:
        """All that the fragment holds, in words that every release has."""
        state = self.bench.state
        found: dict[str, Any] = {
            "next": state.next_sequence,
            "size": state.size_bytes,
            "scheduled": self.rows(state.scheduled),
            "history": sorted(word for s in state.history.shards() for word in s.words if word),
            "lanes": [
                [self.rows(subqueue.ready), self.rows(subqueue.deferred)]
                for subqueue in state.subqueues
            ],
        }
        if state.sessions is not None:
            found["sessions"] = sorted(
                [s.session_id, s.message_count, s.state_length, [*s.waiting(0)], [*s.aside(0)]]
                for s in state.sessions
            )
        return json.loads(json.dumps(found))


@pytest.mark.parametrize("name", sorted(SPECS))
def test_data_of_the_release_before_opens(tmp_path: Path, name: str) -> None:
    unpack(BEFORE_PAGES, tmp_path)
    expected = json.loads((tmp_path / f"{name}.json").read_text())
    stored = Stored(tmp_path / name, SPECS[name])
    assert stored.summary() == expected
    stored.bench.broker._checkpoint()  # now it is kept in the present form
    stored.run()
    stored.bench.broker.abandon()
    assert list((tmp_path / name).glob("*.pages"))
    again = Stored(tmp_path / name, SPECS[name])
    assert again.summary() == expected
    again.bench.broker.abandon()
