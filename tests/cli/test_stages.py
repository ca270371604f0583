"""`partibus stage` against the real server."""

import pytest

from cli.command import FRAGMENTS, Partibus
from support.groups import absent_groups
from support.server import ServerProcess

pytestmark = pytest.mark.group("flight")

if "flight" not in absent_groups():
    from conformance.bulk.client import BulkClient, Refused
    from partibus.client.message import OutgoingMessage
    from partibus.domain.partition_key import fragment_index

    HOME = fragment_index("job", FRAGMENTS)


def stage(server: ServerProcess, queue: str, count: int, epoch: int) -> None:
    letters = [OutgoingMessage(body=b"x").encode() for _ in range(count)]
    who = {"deliver": "staged", "writer": "job", "epoch": epoch, "stage": f"{epoch}"}
    BulkClient(server).put(queue, letters, at=HOME, **who)


@pytest.fixture
def filled(server: ServerProcess, parted: str) -> str:
    """A queue with a batch of three messages that is published, and six that are staged."""
    stage(server, parted, 3, epoch=1)
    batch = {"writer": "job", "series": "monday", "epoch": 1, "batch": 4}
    BulkClient(server).ask(parted, "stage.publish", HOME, **batch, stages=[("1", 3)])
    stage(server, parted, 6, epoch=2)
    return parted


def test_stages_are_listed_and_dropped(
    partibus: Partibus, server: ServerProcess, filled: str
) -> None:
    (writer,) = partibus("stage", "list", filled, "--json").json["writers"]
    assert (writer["writer"], writer["series"], writer["batch"]) == ("job", "monday", 4)
    assert [found["messages"] for found in writer["stages"]] == [6]
    assert partibus("stage", "list", filled).out.splitlines()[-1].split()[:3] == ["job", "1", "6"]
    assert "staged by pipelines, not yet visible: 6\n" in partibus("entity", "show", filled).out
    done = partibus("stage", "drop", filled, "job", "--yes")
    assert done.out == f"{filled}: 6 staged messages of 'job' dropped\n"
    assert partibus("entity", "show", filled, "--json").json["totals"]["staged"] == 0
    # What the writer is at is over, so that it does not publish half of it.
    with pytest.raises(Refused, match="has ended"):
        stage(server, filled, 1, epoch=2)
    answer = partibus("stage", "drop", filled, "job", "--yes", "--forget", "--json").json
    assert answer == {"name": filled, "writer": "job", "dropped": 0}
    assert (
        partibus("stage", "list", filled).out == f"No pipeline has staged messages in {filled}.\n"
    )


def test_a_writer_that_is_not_there_is_exit_code_four(partibus: Partibus, parted: str) -> None:
    done = partibus.try_("stage", "drop", parted, "nobody", "--yes")
    assert (done.code, done.out) == (4, "")
    assert "has no writer 'nobody'" in done.err
    assert partibus.try_("stage", "drop", "nope", "nobody", "--yes").code == 4


def test_a_home_that_is_down_is_named(partibus: Partibus, filled: str) -> None:
    fragments = partibus("entity", "show", filled, "--json").json["fragments"]
    partibus("fault", "store", str(fragments[HOME]["store"]), "down")
    done = partibus.try_("stage", "drop", filled, "job", "--yes")
    assert done.code == 1
    assert f"fragment {HOME} of" in done.err
