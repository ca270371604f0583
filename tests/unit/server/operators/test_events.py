"""A reader of events begins where it wants to, and hears each event once."""

from partibus.server.operators.events import Cursors

EVENTS = [{"number": number, "time_ms": number, "kind": "store"} for number in range(1, 9)]


def answer(after: int | None) -> dict[str, object]:
    found = [] if after is None else [event for event in EVENTS if event["number"] > after]
    return {"pid": 7, "last": EVENTS[-1]["number"], "events": found, "missed": 0}


def numbers(cursors: Cursors) -> list[int]:
    return [event["number"] for event in cursors.take([0], {0: answer(cursors.after(0))})]


def test_a_reader_begins_with_what_happens_from_now_on() -> None:
    cursors = Cursors(0)
    assert numbers(cursors) == []
    assert numbers(cursors) == []


def test_a_reader_may_begin_with_the_last_ones() -> None:
    cursors = Cursors(0)
    numbers(cursors)
    cursors.go_back(3)
    assert numbers(cursors) == [6, 7, 8]
    assert numbers(cursors) == []


def test_going_back_ends_at_the_first() -> None:
    cursors = Cursors(0)
    numbers(cursors)
    cursors.go_back(500)
    assert numbers(cursors) == list(range(1, 9))


def test_nodes_come_and_go_and_are_read_from_their_beginning() -> None:
    cursors = Cursors(1, "node")
    assert cursors.take([1], {1: answer(None)}) == []
    came = cursors.take([1, 2], {1: answer(8), 2: answer(None)})
    assert [(event["kind"], event["worker"]) for event in came] == [("node-joined", 2)]
    assert cursors.after(2) == 0
    cursors.take([1, 2], {1: answer(8), 2: answer(0)})
    gone = cursors.take([1], {1: answer(8)})
    assert [(event["kind"], event["worker"]) for event in gone] == [("node-left", 2)]
    assert cursors.take([1], {1: answer(8)}) == []
    back = cursors.take([1, 2], {1: answer(8), 2: answer(8)})
    assert [(event["kind"], event["worker"]) for event in back] == [("node-joined", 2)]
    assert cursors.after(2) == 8


def test_a_worker_that_answers_late_has_not_joined() -> None:
    cursors = Cursors(0)
    cursors.take([0, 1], {0: answer(None)})
    assert cursors.take([0, 1], {0: answer(8), 1: answer(None)}) == []
