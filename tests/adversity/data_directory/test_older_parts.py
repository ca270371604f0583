"""Parts of a data directory that are older than the others: recognised and refused.

A disk image of one store from yesterday, or yesterday's catalog, under what the server has written
since. When the right part is put back, every message is there.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adversity.conftest import QUEUES, NewServer
from adversity.data_directory.test_identity import (
    EVERYTHING,
    EXIT_CORRUPT,
    STORES,
    assert_refused,
    bodies_of,
    contents,
    fill,
    picture,
    run_cli,
    send,
    without_catalog,
)
from adversity.victim import Victim
from adversity.waiting import wait_until
from partibus.server.data_directory.seen import read_seen
from support.server import environment


def offline(victim: Victim, verb: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """A verb on the data of the stopped server."""
    command = [sys.executable, "-m", "partibus", "store", verb, "--data", str(victim.data), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def test_an_older_catalog_is_refused_also_when_no_store_wrote_anything_since(
    tmp_path: Path, new_server: NewServer
) -> None:
    victim = new_server(tmp_path / "one", *STORES)
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    older = (victim.data / "catalog.db").read_bytes()
    victim.start()
    known = generation(victim)
    run_cli(victim, "created")
    wait_until(lambda: generation(victim) > known, "the change is noted")
    victim.sigkill()
    without_catalog(victim.data)
    (victim.data / "catalog.db").write_bytes(older)
    assert_refused(victim, "catalog.db", "older", "partibus store adopt")


def generation(victim: Victim) -> int:
    seen = read_seen(victim.data, 0)
    return 0 if seen is None else seen.generation


@pytest.mark.parametrize("politely, workers", [(True, "2"), (False, "1")])
def test_an_older_store_is_refused(
    tmp_path: Path, new_server: NewServer, politely: bool, workers: str
) -> None:
    """A disk image of yesterday under the catalog of today."""
    victim = new_server(tmp_path / "one", *STORES, "--workers", workers)
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    store, older, newest = victim.data / "store-0", tmp_path / "older", tmp_path / "newest"
    shutil.copytree(store, older)
    victim.start()
    known = position(victim)
    for queue in QUEUES:
        send(victim, queue, "after")
    if politely:
        assert victim.stop() == 0
    else:
        wait_until(lambda: position(victim) > known, "the messages are noted")
        victim.sigkill()
    store.rename(newest)
    shutil.copytree(older, store)
    before = picture(victim.data)
    assert_refused(victim, str(store), "older", "catalog.db", "partibus store adopt")
    after = picture(victim.data)
    assert [n for n in before if n.endswith(".seg") and after.get(n) != before[n]] == []
    checked = offline(victim, "check", *STORES)
    assert checked.returncode == EXIT_CORRUPT and "older" in checked.stdout + checked.stderr
    shutil.rmtree(store)
    newest.rename(store)
    victim.start()
    assert contents(victim) == {queue: [*bodies_of(queue), "after"] for queue in QUEUES}


def test_an_older_store_is_taken_when_somebody_says_so(
    tmp_path: Path, new_server: NewServer
) -> None:
    victim = new_server(tmp_path / "one")
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    shutil.copytree(victim.data / "store-0", tmp_path / "older")
    victim.start()
    send(victim, QUEUES[0], "after")
    assert victim.stop() == 0
    shutil.rmtree(victim.data / "store-0")
    shutil.copytree(tmp_path / "older", victim.data / "store-0")
    adopted = offline(victim, "adopt")
    assert adopted.returncode == 0, adopted.stderr
    victim.start()
    assert contents(victim) == EVERYTHING


def position(victim: Victim) -> int:
    seen = read_seen(victim.data, 0)
    return 0 if seen is None else seen.position
