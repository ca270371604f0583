"""Parts of a data directory that do not belong together: refused, with nothing changed.

A catalog that is lost, emptied, older or another's, a store that is missing, empty, exchanged or
another's, a second server: each is refused in one line that names the file and the way out. When
the right part is put back, every message is there.
"""

import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.conftest import QUEUES, NewServer, declare_queues
from adversity.victim import Victim
from support import archives
from support.server import environment

MESSAGES = 3
EXIT_CONFIG, EXIT_CORRUPT = 2, 3
STORES = ("--stores", "2")
BEFORE_IDENTITY = Path(__file__).parents[1] / "data" / "before-identity.tar.xz"
"""Two data directories, of a stopped and of a killed server, by the release before the id: the
queues `first` and `second` with three messages each (the killed one has a fourth in `first`), a
topic `news` with a message in `all`; a queue `gone` was deleted. Segments are cut to their entries.
"""

Break = Callable[[Path], None]


def send(victim: Victim, queue: str, *bodies: str) -> None:
    with (
        ServiceBusClient.from_connection_string(victim.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages([ServiceBusMessage(body) for body in bodies])


def peek(victim: Victim, queue: str) -> list[str]:
    with (
        ServiceBusClient.from_connection_string(victim.connection_string) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        return [str(message) for message in receiver.peek_messages(100)]


def bodies_of(queue: str) -> list[str]:
    return [f"{queue} {number}" for number in range(MESSAGES)]


def fill(victim: Victim) -> None:
    for queue in QUEUES:
        send(victim, queue, *bodies_of(queue))


def contents(victim: Victim) -> dict[str, list[str]]:
    return {queue: peek(victim, queue) for queue in QUEUES}


EVERYTHING = {queue: bodies_of(queue) for queue in QUEUES}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a server that was killed, with messages in two stores."""
    place = tmp_path_factory.mktemp("filled")
    victim = Victim(place, declare_queues(place / "namespace.toml"), *STORES)
    victim.start()
    fill(victim)
    victim.sigkill()
    return place


def copy_of(filled: Path, place: Path) -> Path:
    """A copy of it; returns the data directory."""
    subprocess.run(["cp", "-r", "--sparse=always", str(filled), str(place)], check=True)
    return place / "data"


def picture(data: Path) -> dict[str, bytes]:
    """Every byte below a directory, but what says who has it locked, SQLite's own index, and what
    a running server notes from time to time."""
    return {
        str(path.relative_to(data)): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name not in ("lock", "catalog.db-shm", "seen-0", "seen-1")
    }


def assert_refused(victim: Victim, *words: str, code: int = EXIT_CORRUPT) -> str:
    exit_code, said = victim.refusal()
    assert exit_code == code, said
    lines = [line for line in said.splitlines() if line.startswith("partibus: ")]
    assert lines and "Traceback" not in said, said
    for word in words:
        assert word in lines[0], lines[0]
    return lines[0]


# --- the catalog --------------------------------------------------------------------------------


def without_catalog(data: Path) -> None:
    for path in data.glob("catalog.db*"):
        path.unlink()


def with_empty_catalog(data: Path) -> None:
    without_catalog(data)
    (data / "catalog.db").touch()


@pytest.mark.parametrize("damage, workers", [(without_catalog, "1"), (with_empty_catalog, "2")])
def test_a_lost_catalog_is_not_made_anew(
    filled: Path, tmp_path: Path, new_server: NewServer, damage: Break, workers: str
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    damage(data)
    before = picture(data)
    victim = new_server(tmp_path / "copy", *STORES, "--workers", workers)
    assert_refused(victim, "catalog.db", "store-0", "partibus store adopt")
    assert picture(data) == before
    shutil.copytree(filled / "data", tmp_path / "right")
    for path in (tmp_path / "right").glob("catalog.db*"):
        shutil.copy(path, data / path.name)
    victim.start()
    assert contents(victim) == EVERYTHING


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_catalog_of_another_namespace_is_refused(
    filled: Path, tmp_path: Path, new_server: NewServer, workers: str
) -> None:
    other = new_server(tmp_path / "other", *STORES)
    other.start()
    assert other.stop() == 0
    data = copy_of(filled, tmp_path / "copy")
    kept = data / "catalog.kept"
    (data / "catalog.db").rename(kept)
    for path in data.glob("catalog.db-*"):
        path.unlink()
    shutil.copy(other.data / "catalog.db", data / "catalog.db")
    before = picture(data)["catalog.db"]
    victim = new_server(tmp_path / "copy", *STORES, "--workers", workers)
    assert_refused(victim, "catalog.db", "namespace", "partibus store adopt")
    assert picture(data)["catalog.db"] == before
    kept.replace(data / "catalog.db")
    victim.start()
    assert contents(victim) == EVERYTHING


@pytest.mark.parametrize(
    "change, politely", [("created", False), ("deleted", False), ("updated", True)]
)
def test_an_older_catalog_is_refused(
    tmp_path: Path, new_server: NewServer, change: str, politely: bool
) -> None:
    victim = new_server(tmp_path / "one", *STORES)
    victim.start()
    fill(victim)
    assert victim.stop() == 0
    older = (victim.data / "catalog.db").read_bytes()
    victim.start()
    run_cli(victim, change)
    send(victim, QUEUES[0], "after")
    if politely:
        assert victim.stop() == 0
    else:
        victim.sigkill()
    newest = {path.name: path.read_bytes() for path in victim.data.glob("catalog.db*")}
    without_catalog(victim.data)
    (victim.data / "catalog.db").write_bytes(older)
    assert_refused(victim, "catalog.db", "older", "store-0", "partibus store adopt")
    assert (victim.data / "catalog.db").read_bytes() == older
    without_catalog(victim.data)
    for name, content in newest.items():
        (victim.data / name).write_bytes(content)
    victim.start()
    assert peek(victim, QUEUES[0]) == [*bodies_of(QUEUES[0]), "after"]
    assert peek(victim, QUEUES[2]) == bodies_of(QUEUES[2])


# --- the stores ---------------------------------------------------------------------------------


def without_store(data: Path) -> None:
    shutil.rmtree(data / "store-1")


def with_empty_store(data: Path) -> None:
    without_store(data)
    (data / "store-1").mkdir()


@pytest.mark.parametrize("damage, workers", [(without_store, "2"), (with_empty_store, "1")])
def test_a_store_that_is_not_there_is_not_begun_anew(
    filled: Path, tmp_path: Path, new_server: NewServer, damage: Break, workers: str
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    damage(data)
    victim = new_server(tmp_path / "copy", *STORES, "--workers", workers)
    assert_refused(victim, "store-1", "catalog.db", "Mount", "--lost 1")
    assert not list(data.glob("store-1/*.seg"))
    shutil.rmtree(data / "store-1", ignore_errors=True)
    shutil.copytree(filled / "data" / "store-1", data / "store-1")
    victim.start()
    assert contents(victim) == EVERYTHING


@pytest.mark.parametrize("workers", ["1", "2"])
def test_exchanged_stores_are_refused_and_go_on_when_put_back(
    filled: Path, tmp_path: Path, new_server: NewServer, workers: str
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    exchange(data)
    victim = new_server(tmp_path / "copy", *STORES, "--workers", workers)
    line = assert_refused(victim, "was given as store", "order")
    assert "store-0" in line or "store-1" in line
    exchange(data)
    victim.start()
    assert contents(victim) == EVERYTHING


def exchange(data: Path) -> None:
    (data / "store-0").rename(data / "between")
    (data / "store-1").rename(data / "store-0")
    (data / "between").rename(data / "store-1")


def test_a_store_of_another_namespace_is_refused(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    other = new_server(tmp_path / "other", *STORES)
    other.start()
    fill(other)
    assert other.stop() == 0
    data = copy_of(filled, tmp_path / "copy")
    shutil.rmtree(data / "store-1")
    shutil.copytree(other.data / "store-1", data / "store-1")
    assert_refused(new_server(tmp_path / "copy", *STORES), "store-1", "namespace", "catalog.db")


def test_fewer_stores_than_there_were_are_refused(
    filled: Path, tmp_path: Path, new_server: NewServer
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    victim = new_server(tmp_path / "copy")
    assert_refused(victim, "store 1", code=EXIT_CONFIG)
    again = new_server(tmp_path / "copy", *STORES)
    again.start()
    assert contents(again) == EVERYTHING
    assert data.is_dir()


def test_more_stores_are_begun(filled: Path, tmp_path: Path, new_server: NewServer) -> None:
    copy_of(filled, tmp_path / "copy")
    victim = new_server(tmp_path / "copy", "--stores", "4")
    victim.start()
    assert contents(victim) == EVERYTHING


# --- deletions ----------------------------------------------------------------------------------


def test_what_was_deleted_stays_deleted_and_the_rest_is_kept(
    tmp_path: Path, new_server: NewServer
) -> None:
    victim = new_server(tmp_path / "one", *STORES)
    victim.start()
    fill(victim)
    run_cli(victim, "deleted")
    victim.sigkill()
    victim.start()  # the configuration makes the queue again, and it is a new one
    assert peek(victim, QUEUES[1]) == []
    assert peek(victim, QUEUES[0]) == bodies_of(QUEUES[0])
    assert victim.stop() == 0
    victim.start()
    assert peek(victim, QUEUES[2]) == bodies_of(QUEUES[2])


# --- two servers --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_server_changes_nothing(
    tmp_path: Path, new_server: NewServer, workers: str
) -> None:
    first = new_server(tmp_path / "one", *STORES, "--workers", workers)
    first.start()
    fill(first)
    second = new_server(tmp_path / "one", *STORES, "--workers", workers)
    with (tmp_path / "one" / "namespace.toml").open("a") as config:
        config.write('[[queue]]\nname = "intruder"\n')
    before = picture(first.data)
    exit_code, said = second.refusal()
    assert exit_code == 1 and "is in use by another server" in said
    assert str(first.data) in said
    assert picture(first.data) == before
    assert contents(first) == EVERYTHING
    assert "intruder" not in cli(first, "queue", "list").stdout


# --- damage -------------------------------------------------------------------------------------


def test_a_bit_anywhere_in_the_catalog_is_found_or_harmless(
    filled: Path, tmp_path: Path, new_server: NewServer, seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(3):
        data = copy_of(filled, tmp_path / f"copy-{number}")
        file = data / "catalog.db"
        content = bytearray(file.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        victim = new_server(tmp_path / f"copy-{number}", *STORES)
        try:
            victim.start()
        except AssertionError:
            assert victim.exit_code in (EXIT_CONFIG, EXIT_CORRUPT), victim.log_text()
            assert "catalog.db" in victim.log_text()
        else:
            assert contents(victim) == EVERYTHING


# --- what an earlier release has written --------------------------------------------------------


@pytest.mark.parametrize("end, workers", [("stopped", "1"), ("killed", "2")])
def test_data_of_before_the_namespace_id_is_taken_over(
    tmp_path: Path, new_server: NewServer, end: str, workers: str
) -> None:
    place = unpack(tmp_path, end)
    victim = new_server(place, *STORES, "--workers", workers)
    victim.start()
    more = ["first 3"] if end == "killed" else []
    assert peek(victim, "first") == [*bodies_of("first"), *more]
    assert peek(victim, "second") == bodies_of("second")
    assert victim.stop() == 0
    exchange(place / "data")
    assert_refused(victim, "was given as store")


@pytest.mark.parametrize("damage", [without_catalog, with_empty_catalog, without_store])
def test_data_of_before_the_namespace_id_is_taken_over_only_whole(
    tmp_path: Path, new_server: NewServer, damage: Break
) -> None:
    place = unpack(tmp_path, "stopped")
    damage(place / "data")
    assert_refused(new_server(place, *STORES), "catalog.db", "store-", "partibus store adopt")


def unpack(tmp_path: Path, end: str) -> Path:
    place = tmp_path / "before"
    place.mkdir()
    archives.unpack(BEFORE_IDENTITY, place)
    (place / end).rename(place / "data")
    return place


# --- the command line ---------------------------------------------------------------------------


def cli(victim: Victim, *words: str) -> "subprocess.CompletedProcess[str]":
    """A verb against the running server."""
    command = [sys.executable, "-m", "partibus", *words]
    variables = environment() | {"PARTIBUS_CONNECTION_STRING": victim.connection_string}
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True)


def run_cli(victim: Victim, change: str) -> None:
    words = {
        "created": ("queue", "create", "late"),
        "deleted": ("queue", "delete", QUEUES[1], "--yes"),
        "updated": ("queue", "update", QUEUES[1], "--max-delivery-count", "77"),
    }
    cli(victim, *words[change])


# --- who may read it --------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o277])
def test_everything_is_private_whatever_the_umask(
    tmp_path: Path, new_server: NewServer, mask: int
) -> None:
    place = tmp_path / "one"
    (place / "data").mkdir(parents=True)
    (place / "data").chmod(0o755)
    victim = new_server(place, "--workers", "2", *STORES)
    before = os.umask(mask)
    try:
        victim.start()
    finally:
        os.umask(before)
    fill(victim)
    paths = [victim.data, *victim.data.rglob("*")]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths}
    wanted = {str(path): 0o700 if path.is_dir() else 0o600 for path in paths}
    assert modes == wanted
    assert len(paths) > 10


@pytest.mark.parametrize("name", ["catalog.db", "lock", "store-0", "tls", "store-0/lock"])
def test_a_link_below_the_data_directory_is_not_followed(
    filled: Path, tmp_path: Path, new_server: NewServer, name: str
) -> None:
    data = copy_of(filled, tmp_path / "copy")
    elsewhere = tmp_path / "elsewhere"
    (data / name).rename(elsewhere)
    (data / name).symlink_to(elsewhere)
    exit_code, said = new_server(tmp_path / "copy", *STORES).refusal()
    assert exit_code in (1, EXIT_CONFIG), said
    assert str(data / name) in said and "link" in said.lower(), said
    assert "Traceback" not in said
