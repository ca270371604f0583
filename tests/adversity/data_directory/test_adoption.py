"""The ways out of a refusal: check says what is wrong, adopt and repair put it right.

Whatever was made to belong together by force, no message is lost and none appears in a queue that
it was not sent to: what has no entity any more gets a queue with a name of its own.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from adversity.conftest import QUEUES, NewServer, declare_queues
from adversity.data_directory.test_identity import (
    BEFORE_IDENTITY,
    EVERYTHING,
    EXIT_CORRUPT,
    STORES,
    bodies_of,
    cli,
    contents,
    copy_of,
    fill,
    peek,
    picture,
    run_cli,
    send,
    unpack,
    without_catalog,
    without_store,
)
from adversity.victim import Victim
from support.server import environment


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a server that was stopped, with messages in two stores."""
    place = tmp_path_factory.mktemp("filled")
    victim = Victim(place, declare_queues(place / "namespace.toml"), *STORES)
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    return place


def offline(verb: str, data: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "partibus", "store", verb, "--data", str(data), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)


def queues(victim: Victim) -> list[str]:
    listed = json.loads(cli(victim, "queue", "list", "--json").stdout)["queues"]
    return [queue["name"] for queue in listed]


def recovered(victim: Victim) -> dict[str, list[str]]:
    found = [name for name in queues(victim) if name.startswith("recovered-fragment-")]
    return {name: peek(victim, name) for name in found}


def test_a_sound_directory_is_called_so_and_left_alone(filled: Path, tmp_path: Path) -> None:
    data = copy_of(filled, tmp_path / "copy")
    before = picture(data)
    checked = offline("check", data)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert [line.partition(" (")[0] for line in checked.stdout.splitlines()] == [
        "catalog: sound",
        "store 0: sound",
        "store 1: sound",
    ]
    assert picture(data) == before
    facts = json.loads(offline("check", data, "--json").stdout)["parts"]
    assert sum(part["facts"].get("messages", 0) for part in facts) == 9


def test_check_is_refused_while_the_server_runs(server: Victim) -> None:
    for verb in ("check", "adopt", "repair"):
        done = offline(verb, server.data)
        assert (done.returncode, done.stdout) == (1, "")
        assert "is in use by another server" in done.stderr


def test_check_names_a_damaged_body_by_file_and_offset(filled: Path, tmp_path: Path) -> None:
    data = copy_of(filled, tmp_path / "copy")
    (segment,) = (data / "store-0").glob("*.seg")
    content = bytearray(segment.read_bytes())
    offset = content.index(b"first 1")
    content[offset] ^= 4
    segment.write_bytes(content)
    checked = offline("check", data)
    assert checked.returncode == EXIT_CORRUPT
    assert "store 0: 1 problem(s)" in checked.stdout and segment.name in checked.stdout
    assert "store 1: sound" in checked.stdout


def test_check_finds_what_a_start_would_refuse(filled: Path, tmp_path: Path) -> None:
    data = copy_of(filled, tmp_path / "copy")
    without_store(data)
    checked = offline("check", data, "--stores", "2")
    assert checked.returncode == EXIT_CORRUPT
    assert "store-1" in checked.stdout


def test_a_lost_catalog_is_made_for_what_the_stores_hold(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    without_catalog(data)
    adopted = offline("adopt", data)
    assert adopted.returncode == 0, adopted.stderr
    assert adopted.stdout.count("made the queue recovered-fragment-") == 3
    victim = new_server(tmp_path / "copy", *STORES)
    victim.start()
    assert sorted(recovered(victim).values()) == sorted(EVERYTHING.values())
    assert contents(victim) == {queue: [] for queue in QUEUES}
    send(victim, "recovered-fragment-1", "more")
    assert victim.stop() == 0
    victim.start()
    assert [*bodies_of(QUEUES[0]), "more"] in recovered(victim).values()


def test_an_older_catalog_goes_on_and_what_it_lacks_gets_a_queue(
    tmp_path: Path, new_server: NewServer
) -> None:
    victim = new_server(tmp_path / "one", *STORES)
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    older = (victim.data / "catalog.db").read_bytes()
    victim.start()
    run_cli(victim, "created")
    send(victim, "late", "late 0")
    victim.sigkill()
    without_catalog(victim.data)
    (victim.data / "catalog.db").write_bytes(older)
    adopted = offline("adopt", victim.data)
    assert adopted.returncode == 0, adopted.stderr
    victim.start()
    assert contents(victim) == EVERYTHING
    assert list(recovered(victim).values()) == [["late 0"]]
    run_cli(victim, "created")
    assert peek(victim, "late") == []


def test_what_the_catalog_does_not_know_is_dropped_when_that_is_asked_for(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    without_catalog(data)
    adopted = offline("adopt", data, "--drop-unknown")
    assert adopted.stdout.count("with 3 messages") == 3
    victim = new_server(tmp_path / "copy", *STORES)
    victim.start()
    assert sorted(queues(victim)) == sorted(QUEUES)
    assert contents(victim) == {queue: [] for queue in QUEUES}


def test_a_store_of_another_namespace_brings_its_messages_under_ids_of_their_own(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    other = new_server(tmp_path / "other", *STORES)
    other.start()
    send(other, QUEUES[0], "theirs")
    assert other.stop() == 0
    data = copy_of(filled, tmp_path / "copy")
    shutil.move(other.data / "store-0", data / "store-2")
    adopted = offline("adopt", data)
    assert adopted.returncode == 0, adopted.stderr
    victim = new_server(tmp_path / "copy", "--stores", "3")
    victim.start()
    assert contents(victim) == EVERYTHING
    assert ["theirs"] in recovered(victim).values()
    assert victim.stop() == 0
    victim.start()
    assert contents(victim) == EVERYTHING
    assert ["theirs"] in recovered(victim).values()


def test_a_store_that_is_lost_for_good_is_begun_anew(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    without_store(data)
    refused = offline("adopt", data, *STORES)
    assert refused.returncode == EXIT_CORRUPT and "--lost 1" in refused.stderr
    adopted = offline("adopt", data, *STORES, "--lost", "1")
    assert adopted.returncode == 0, adopted.stderr
    victim = new_server(tmp_path / "copy", *STORES)
    victim.start()
    held = contents(victim)
    assert held[QUEUES[0]] == bodies_of(QUEUES[0])
    assert held[QUEUES[1]] == []
    send(victim, QUEUES[1], "again")
    assert peek(victim, QUEUES[1]) == ["again"]


def test_a_damaged_catalog_is_repaired_from_its_copy(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    file = data / "catalog.db"
    content = bytearray(file.read_bytes())
    content[content.index(b"second")] ^= 1
    file.write_bytes(content)
    checked = offline("check", data)
    assert checked.returncode == EXIT_CORRUPT and "catalog.db is damaged" in checked.stdout
    repaired = offline("repair", data)
    assert repaired.returncode == 0, repaired.stderr
    assert (data / "catalog.db.damaged").read_bytes() == bytes(content)
    victim = new_server(tmp_path / "copy", *STORES)
    victim.start()
    assert contents(victim) == EVERYTHING
    assert not recovered(victim)


def test_there_is_nothing_to_repair_in_a_sound_one(filled: Path, tmp_path: Path) -> None:
    data = copy_of(filled, tmp_path / "copy")
    before = picture(data)
    repaired = offline("repair", data)
    assert (repaired.returncode, "nothing to repair" in repaired.stdout) == (0, True)
    assert picture(data) == before


def test_exchanged_stores_are_not_adopted(filled: Path, tmp_path: Path) -> None:
    data = copy_of(filled, tmp_path / "copy")
    (data / "store-0").rename(data / "between")
    (data / "store-1").rename(data / "store-0")
    (data / "between").rename(data / "store-1")
    refused = offline("adopt", data)
    assert refused.returncode == EXIT_CORRUPT and "order" in refused.stderr


def test_data_of_an_earlier_release_without_its_catalog(
    tmp_path: Path, new_server: NewServer
) -> None:
    assert BEFORE_IDENTITY.is_file()
    place = unpack(tmp_path, "killed")
    without_catalog(place / "data")
    adopted = offline("adopt", place / "data")
    assert adopted.returncode == 0, adopted.stderr
    victim = new_server(place, *STORES)
    victim.start()
    found = list(recovered(victim).values())
    assert [*bodies_of("first"), "first 3"] in found
    assert bodies_of("second") in found
    assert ["headline"] in found
