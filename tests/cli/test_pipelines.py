"""`partibus claim` and `partibus cursor` against the real server."""

import json
from typing import Any

import pytest

from cli.command import FRAGMENTS, Partibus
from support.groups import absent_groups
from support.server import ServerProcess

pytestmark = pytest.mark.group("flight")

if "flight" not in absent_groups():
    from conformance.bulk.client import BulkClient
    from partibus.client.message import OutgoingMessage


@pytest.fixture
def filled(server: ServerProcess, parted: str) -> str:
    """A queue with two messages in every fragment, ten of them claimed, and a cursor."""
    bulk = BulkClient(server)
    bulk.put(parted, [OutgoingMessage(body=b"x").encode() for _ in range(2 * FRAGMENTS)])
    limits: dict[int, Any] = {index: {"messages": 2} for index in range(5)}
    who = {"owner": "job", "epoch": 7, "start": "batch 3"}
    bulk.ask(parted, "claim", **who, limits=limits, duration_ms=600_000)
    keep = {"retain_ms": 3_600_000, "retain_bytes": 1 << 20}
    positions = dict.fromkeys(range(FRAGMENTS), 1)
    bulk.ask(parted, "cursor.put", name="capture", positions=positions, **keep)
    return parted


def test_claims_are_listed_and_released(
    partibus: Partibus, server: ServerProcess, filled: str
) -> None:
    (claim,) = partibus("claim", "list", filled, "--json").json["claims"]
    assert (claim["owner"], claim["start"], claim["epoch"]) == ("job", "batch 3", 7)
    assert claim["messages"] == sum(claim["fragments"].values()) == 10
    text = partibus("claim", "list", filled).out
    assert text.splitlines()[-1].split()[:4] == ["job", "batch", "3", "10"]
    shown = partibus("entity", "show", filled).out
    assert "claimed by pipelines: 10\n" in shown
    done = partibus("claim", "release", filled, "job", "--yes")
    assert done.out == f"{filled}: 10 messages of 'job' returned to the queue\n"
    assert partibus("entity", "show", filled, "--json").json["totals"]["claimed"] == 0
    # The run that held them is shut out, so that it does not settle what is no longer its own.
    told = BulkClient(server).ask(filled, "settle", owner="job", epoch=7, start="batch 3")
    conditions = {(f["error"] or {}).get("condition") for f in told["fragments"].values()}
    assert conditions == {None, "partibus:claim-fenced"}
    partibus("claim", "release", filled, "job", "--yes", "--forget")
    assert (
        partibus("claim", "list", filled).out == f"No pipeline has claimed messages of {filled}.\n"
    )


def test_cursors_are_listed_and_dropped(partibus: Partibus, filled: str) -> None:
    (cursor,) = partibus("cursor", "list", filled, "--json").json["cursors"]
    assert (cursor["name"], cursor["lag"]) == ("capture", 2 * FRAGMENTS)
    assert cursor["positions"] == {str(index): 1 for index in range(FRAGMENTS)}
    assert "capture" in partibus("cursor", "list", filled).out
    partibus("purge", filled, "--yes")
    partibus("cursor", "drop", filled, "capture", "-y")
    assert partibus("cursor", "list", filled).out == f"{filled} has no cursors.\n"


@pytest.mark.parametrize(("verb", "what"), [("claim release", "job"), ("cursor drop", "c")])
def test_what_is_not_there_is_exit_code_four(
    partibus: Partibus, parted: str, verb: str, what: str
) -> None:
    done = partibus.try_(*verb.split(), parted, what, "--yes")
    assert (done.code, done.out) == (4, "")
    assert f"'{what}'" in done.err
    assert partibus.try_(*verb.split(), "nope", what, "--yes").code == 4


def test_a_fragment_that_is_down_is_named(partibus: Partibus, filled: str) -> None:
    partibus("fault", "store", "1", "down")
    fragments = partibus("entity", "show", filled, "--json").json["fragments"]
    down = [f["index"] for f in fragments if f["store"] == 1]
    done = partibus.try_("cursor", "drop", filled, "capture", "--yes")
    assert done.code == 1
    assert f"fragments {', '.join(map(str, down))} of" in done.err


def test_json_is_for_programs(partibus: Partibus, filled: str) -> None:
    done = partibus("claim", "release", filled, "job", "--yes", "--json")
    assert json.loads(done.out) == {"name": filled, "owner": "job", "released": 10}
