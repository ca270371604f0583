"""Everything that a store holds as one checkpoint, taken while it is not served.

Owns the snapshot of rebuilt states that a copy begins with: pages of the last checkpoint keep their
numbers and bytes, what was recorded since goes to new ones. Locks kept by a clean stop stay. Must
never change a store. Called by `server.copying`.
"""

from functools import partial

from partibus.fragment.paging import NewPages
from partibus.fragment.replay import settle_numbers
from partibus.fragment.snapshot import dump
from partibus.fragment.upkeep.recovering import Rebuilt
from partibus.fragment.upkeep.removal import all_bodies
from partibus.store.compaction.importing import Snapshot
from partibus.store.interface import Pages, Ref
from partibus.store.pages import PageSource


def take_whole(rebuilt: Rebuilt, pages: Pages, position: int) -> Snapshot:
    """The snapshot of a log that ends at `position`; taken once, since states note new pages."""
    new = NewPages(rebuilt.last_page + 1)
    states: dict[int, bytes] = {}
    mentioned: list[int] = []
    for fragment_id, state in rebuilt.states.items():
        settle_numbers(state)
        new.begin()
        states[fragment_id] = dump(state, keeps_locks=True, pages=new)
        mentioned += new.mentioned
    rebuilt.marks.add_to(states)
    kept: dict[int, PageSource] = {
        number: new.unwritten.get(number) or partial(_read, pages, number) for number in mentioned
    }
    return Snapshot(position, states, kept)


def _read(pages: Pages, number: int) -> list[bytes]:
    return [pages.read(number)]


def whole_bodies(rebuilt: Rebuilt) -> list[Ref]:
    """Every body that any fragment needs; a shared one is listed for each."""
    return [ref for state in rebuilt.states.values() for ref in all_bodies(state)]
