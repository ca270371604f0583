"""What one node makes of the table it has read, and of what it has written itself."""

from partibus.control.lane_placement import MOVES_MAX
from partibus.control.lease_view import LeaseTable, LeaseView
from partibus.control.ownership import SERVE_MS, NodeAddress
from partibus.testing.clock import ManualClock

NODES = {1: NodeAddress("127.0.0.1", 1), 2: NodeAddress("127.0.0.1", 2)}


def table(**owners: int | None) -> LeaseTable:
    lanes = {int(name.removeprefix("lane")): owner for name, owner in owners.items()}
    return LeaseTable(NODES, frozenset(), lanes)


def joined(clock: ManualClock) -> LeaseView:
    view = LeaseView(clock)
    view.joined(1)
    view.renewed(clock.monotonic_ms())
    return view


def test_what_was_acquired_here_changes_the_decision_when_it_is_read() -> None:
    """While lanes are free nothing else moves; then the other node has some to give."""
    view = joined(ManualClock())
    others = dict.fromkeys(range(2 * MOVES_MAX), 2)
    free = range(2 * MOVES_MAX, 3 * MOVES_MAX)
    view.looked(LeaseTable(NODES, frozenset(), {**others, **dict.fromkeys(free)}))
    assert view.wanted() == set(free)
    for lane in free:
        view.acquired(lane)
    view.looked(LeaseTable(NODES, frozenset(), {**others, **dict.fromkeys(free, 1)}))
    assert len(view.wanted()) == len(free) + MOVES_MAX // 2


def test_a_stray_is_what_the_table_has_and_the_node_does_not_hold() -> None:
    clock = ManualClock()
    view = joined(clock)
    view.looked(table(lane0=None, lane1=None, lane2=1))
    view.acquired(0)
    assert view.strays() == {2}
    view.looked(table(lane0=1, lane1=2, lane2=None))
    assert (view.owned(), view.strays()) == ({0}, set())
    clock.advance_ms(SERVE_MS)
    view.renewed(clock.monotonic_ms())
    assert (view.owned(), view.strays()) == (set(), {0})


def test_a_lane_that_the_table_has_for_another_is_not_held_any_more() -> None:
    view = joined(ManualClock())
    view.looked(table(lane0=None))
    view.acquired(0)
    view.looked(table(lane0=2))
    assert view.owned() == set()
    assert view.owner_of(0) == 2


def test_a_lane_that_was_freed_before_it_was_read_as_acquired_is_not_held() -> None:
    view = joined(ManualClock())
    view.looked(table(lane0=None))
    view.acquired(0)
    view.looked(table(lane0=None))
    assert view.owned() == view.strays() == set()
    assert view.owner_of(0) is None


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    clock = ManualClock()
    view = joined(clock)
    view.looked(table(lane0=None))
    view.acquired(0)
    begun_ms = clock.monotonic_ms()
    clock.advance_ms(SERVE_MS - 1)
    view.renewed(begun_ms)
    assert view.owned() == {0}
    clock.advance_ms(1)
    assert view.owned() == set()


def test_listeners_are_called_once_for_each_difference() -> None:
    clock = ManualClock()
    view = joined(clock)
    calls: list[int] = []
    for read in (table(lane0=None), table(lane0=None), table(lane0=2)):
        view.looked(read)
        view.notify(lambda: calls.append(1))
    assert len(calls) == 2
    clock.advance_ms(SERVE_MS)
    view.notify(lambda: calls.append(1))
    assert len(calls) == 3, "it may not serve any more"
